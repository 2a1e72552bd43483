//! Loops of a shader's text, written out: drivers do not do it, because each of naga's loops counts its turns.

/// Writes out the loops `for (var i = 0u; i < BOUND; i++) { // unroll`; `bounds` say how many turns they are of.
pub fn unrolled(mut text: String, bounds: &[(&str, usize)]) -> String {
    const MARK: &str = "{ // unroll";
    while let Some(mark) = text.find(MARK) {
        let start = text[..mark].rfind("for (var ").expect("a loop");
        let words: Vec<&str> = text[start..mark].split_whitespace().collect();
        let (variable, bound) = (words[2], words[7].trim_end_matches(';'));
        let is_bound = |(name, _): &&(&str, usize)| *name == bound;
        let (_, count) = *bounds.iter().find(is_bound).expect("bound of a loop that is written out");
        let body_start = mark + MARK.len();
        let body = &text[body_start..body_start + block_len(&text[body_start..])];
        let copy = |i: usize| format!("{{{}}}\n", with_value(body, variable, i));
        let copies: String = (0..count).map(copy).collect();
        let end = body_start + body.len() + 1;
        text.replace_range(start..end, &copies);
    }
    text
}

/// Length of what comes before the brace that closes a block.
fn block_len(text: &str) -> usize {
    let mut depth = 1;
    let closes = |c: char| {
        depth += (c == '{') as i32 - (c == '}') as i32;
        depth == 0
    };
    text.find(closes).expect("the block ends")
}

/// `body` with `value` for the word `variable`.
fn with_value(body: &str, variable: &str, value: usize) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut done = 0;
    for (at, _) in body.match_indices(variable) {
        let behind = at + variable.len();
        if !body[..at].ends_with(is_of_word) && !body[behind..].starts_with(is_of_word) {
            out += &body[done..at];
            out += &format!("{value}u");
            done = behind;
        }
    }
    out + &body[done..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_loops_are_written_out() {
        let text =
            "a;\nfor (var m = 0u; m < ALL; m++) { // unroll\n    if x { sum += rows[m] + mm; }\n}\nb;\n";
        let body = |m: u32| format!("{{\n    if x {{ sum += rows[{m}u] + mm; }}\n}}\n");
        assert_eq!(unrolled(text.into(), &[("ALL", 2)]), format!("a;\n{}{}\nb;\n", body(0), body(1)));
        let nested =
            "for (var i = 0u; i < A; i++) { // unroll\nfor (var k = 0u; k < B; k++) { // unroll\nx[i][k];}}";
        let written_out = unrolled(nested.into(), &[("A", 2), ("B", 1)]);
        assert_eq!(written_out.replace('\n', ""), "{{x[0u][0u];}}{{x[1u][0u];}}");
    }
}
