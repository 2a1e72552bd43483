//! The edges at run time: bounded queues that measure their length. An end whose other end is gone says so; end of
//! stream is a closed queue.

use crossbeam_channel::{Receiver, Sender, bounded};

use super::token::Token;

/// The other end of a queue is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// The writing end. It exists once and is never cloned, so dropping it closes the queue.
#[derive(Debug)]
pub struct QueueInput {
    tokens: Sender<Token>,
    longest: u64,
}

/// The reading end, existing once too.
#[derive(Debug)]
pub struct QueueOutput {
    tokens: Receiver<Token>,
}

/// A queue of at least one place.
pub fn queue(capacity: usize) -> (QueueInput, QueueOutput) {
    let (input, output) = bounded(capacity.max(1));
    (QueueInput { tokens: input, longest: 0 }, QueueOutput { tokens: output })
}

impl QueueInput {
    /// Puts a token in, waiting while the queue is full.
    pub fn put(&mut self, token: Token) -> Result<(), Closed> {
        self.tokens.send(token).map_err(|_| Closed)?;
        self.longest = self.longest.max(self.tokens.len() as u64);
        Ok(())
    }

    /// The greatest length seen right after a token went in.
    pub fn longest(&self) -> u64 {
        self.longest
    }
}

impl QueueOutput {
    /// Takes the oldest token, waiting while the queue is empty; closed once it is empty and its writer is gone.
    pub fn take(&self) -> Result<Token, Closed> {
        self.tokens.recv().map_err(|_| Closed)
    }
}
