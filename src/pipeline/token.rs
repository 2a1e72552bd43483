//! How messages and stages lose their types for the run, and how a wrong wire is caught.

use std::any::Any;

use crate::message::{
    FeaturedFrame, Frame, GatedFrame, GrayFrame, JoinedFrame, MatchedFrame, MergedFrame, TrackTable,
    TrackedFrame, Verdict, VerifiedFrame,
};
use crate::stages::{SourceStage, Stage, StageError, StreamEnd};

/// A message on its way through a queue.
pub type Token = Box<dyn Any + Send>;

/// What may travel on an edge.
pub trait Message: Send + 'static {
    /// The type's name, unique among the messages of a graph.
    const NAME: &'static str;
}

macro_rules! messages {
    ($($name:ident),*) => { $(impl Message for $name { const NAME: &'static str = stringify!($name); })* };
}

messages!(
    Frame,
    GrayFrame,
    TrackedFrame,
    GatedFrame,
    FeaturedFrame,
    JoinedFrame,
    MatchedFrame,
    MergedFrame,
    VerifiedFrame,
    TrackTable,
    Verdict
);

/// The message names on one side of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// The edge that frames travel on; none before a source and after a sink.
    pub main: Option<&'static str>,
    /// The edge that goes back.
    pub feedback: Option<&'static str>,
}

/// One firing's tokens on one side of a stage.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The token of the main edge.
    pub main: Option<Token>,
    /// The token of the feedback edge.
    pub feedback: Option<Token>,
}

/// A token of another type than the stage takes. The graph's checks rule it out.
#[derive(Debug, thiserror::Error)]
#[error("an edge of {0} carried another type; check the graph before it is run")]
pub struct WrongToken(&'static str);

fn message<M: Message>(token: Option<Token>) -> Result<M, WrongToken> {
    token.and_then(|token| token.downcast().ok()).map(|message| *message).ok_or(WrongToken(M::NAME))
}

/// What a stage takes in one firing: a message, or a pair (main edge, feedback edge).
pub trait Takes: Sized {
    /// The names.
    const EDGES: Edges;

    /// Gives the tokens their types back.
    fn from_tokens(tokens: Tokens) -> Result<Self, WrongToken>;
}

impl<M: Message> Takes for M {
    const EDGES: Edges = Edges { main: Some(M::NAME), feedback: None };

    fn from_tokens(tokens: Tokens) -> Result<Self, WrongToken> {
        message(tokens.main)
    }
}

impl<M: Message, B: Message> Takes for (M, B) {
    const EDGES: Edges = Edges { main: Some(M::NAME), feedback: Some(B::NAME) };

    fn from_tokens(tokens: Tokens) -> Result<Self, WrongToken> {
        Ok((message(tokens.main)?, message(tokens.feedback)?))
    }
}

/// What a stage gives in one firing: a message, a pair (main edge, feedback edge), or `()` for a sink.
pub trait Gives: Sized {
    /// The names.
    const EDGES: Edges;

    /// Takes the types off.
    fn into_tokens(self) -> Tokens;
}

impl<M: Message> Gives for M {
    const EDGES: Edges = Edges { main: Some(M::NAME), feedback: None };

    fn into_tokens(self) -> Tokens {
        Tokens { main: Some(Box::new(self)), feedback: None }
    }
}

impl<M: Message, B: Message> Gives for (M, B) {
    const EDGES: Edges = Edges { main: Some(M::NAME), feedback: Some(B::NAME) };

    fn into_tokens(self) -> Tokens {
        Tokens { main: Some(Box::new(self.0)), feedback: Some(Box::new(self.1)) }
    }
}

impl Gives for () {
    const EDGES: Edges = Edges { main: None, feedback: None };

    fn into_tokens(self) -> Tokens {
        Tokens::default()
    }
}

/// A source, a stage or a sink as the runtime sees it.
pub trait AnyStage: Send {
    /// The names of what it takes.
    fn takes(&self) -> Edges;

    /// The names of what it gives.
    fn gives(&self) -> Edges;

    /// One firing; none where a source has no more.
    fn fire(&mut self, taken: Tokens) -> Result<Option<Tokens>, StageError>;

    /// See [`Stage::finish`].
    fn finish(&mut self, end: StreamEnd) -> Result<(), StageError>;
}

struct Source<S>(S);

impl<S: SourceStage> AnyStage for Source<S> {
    fn takes(&self) -> Edges {
        Edges::default()
    }

    fn gives(&self) -> Edges {
        S::Gives::EDGES
    }

    fn fire(&mut self, _: Tokens) -> Result<Option<Tokens>, StageError> {
        Ok(self.0.next()?.map(Gives::into_tokens))
    }

    fn finish(&mut self, _: StreamEnd) -> Result<(), StageError> {
        Ok(())
    }
}

struct Inner<S>(S);

impl<S: Stage> AnyStage for Inner<S> {
    fn takes(&self) -> Edges {
        S::Takes::EDGES
    }

    fn gives(&self) -> Edges {
        S::Gives::EDGES
    }

    fn fire(&mut self, taken: Tokens) -> Result<Option<Tokens>, StageError> {
        Ok(Some(self.0.fire(Takes::from_tokens(taken)?)?.into_tokens()))
    }

    fn finish(&mut self, end: StreamEnd) -> Result<(), StageError> {
        self.0.finish(end)
    }
}

/// A source without its type.
pub fn any_source(source: impl SourceStage) -> Box<dyn AnyStage> {
    Box::new(Source(source))
}

/// A stage or sink without its type.
pub fn any_stage(stage: impl Stage) -> Box<dyn AnyStage> {
    Box::new(Inner(stage))
}
