//! A chain of stages and the edges that go back, checked type by type before it runs.

use super::token::{AnyStage, Message, Token};

/// A stage of a graph.
pub(super) struct Node {
    pub name: String,
    /// Of its output queue.
    pub capacity: usize,
    pub stage: Box<dyn AnyStage>,
    /// Sees what the stage takes.
    pub observer: Option<Observer>,
}

pub(super) type Observer = Box<dyn FnMut(&Token) + Send>;

/// An edge that goes back.
pub(super) struct Feedback {
    pub message: &'static str,
    pub initial: Vec<Token>,
    pub capacity: usize,
}

/// A chain of stages, each wired to the next, and the edges that go back.
#[derive(Default)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) feedback: Vec<Feedback>,
}

/// A graph whose ends fit.
pub struct CheckedGraph(pub(super) Graph);

/// Two ends that do not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WireError {
    /// Neighbours of different types.
    #[error(
        "stage {stage} takes {takes}, but {before} before it gives {gives}; wire it to a stage that gives {takes}"
    )]
    Main {
        /// The later stage.
        stage: String,
        /// What it takes.
        takes: &'static str,
        /// The earlier stage, or "nothing".
        before: String,
        /// What that gives.
        gives: &'static str,
    },
    /// The last stage is no sink.
    #[error(
        "stage {stage} gives {gives}, but nothing stands after it; end the graph with a stage that gives nothing"
    )]
    OpenEnd {
        /// The last stage.
        stage: String,
        /// What it gives.
        gives: &'static str,
    },
    /// A queue without room.
    #[error("stage {stage} has a queue of 0, but a queue holds at least 1 token; give it 1 or more")]
    NoQueue {
        /// The stage.
        stage: String,
    },
    /// A feedback edge that lacks an end, an initial token or room.
    #[error(
        "the edge of {message} has {writers} writers, {readers} readers, {initial} initial tokens and capacity \
         {capacity}; it needs one writer after one reader, and 1 <= initial tokens <= capacity"
    )]
    Feedback {
        /// What it carries.
        message: &'static str,
        /// Stages that give it.
        writers: usize,
        /// Stages that take it.
        readers: usize,
        /// Tokens that lie on it before the first firing.
        initial: usize,
        /// Its room.
        capacity: usize,
    },
    /// A stage with a feedback end that no edge reaches.
    #[error("stage {stage} has a feedback end of {message}, but the graph has no such edge; add it")]
    NoEdge {
        /// The stage.
        stage: String,
        /// What the edge would carry.
        message: &'static str,
    },
}

impl Graph {
    /// Appends a stage; `capacity` is that of its output queue.
    pub fn push(&mut self, name: &str, capacity: usize, stage: Box<dyn AnyStage>) {
        self.nodes.push(Node { name: name.into(), capacity, stage, observer: None });
    }

    /// Adds the edge on which `M` goes back, with its initial tokens.
    pub fn feedback<M: Message + Default>(&mut self, initial: usize, capacity: usize) {
        let initial = (0..initial).map(|_| Box::new(M::default()) as Token).collect();
        self.feedback.push(Feedback { message: M::NAME, initial, capacity });
    }

    /// Checks queues and types edge by edge; every error at once.
    pub fn check(self) -> Result<CheckedGraph, Vec<WireError>> {
        let mut errors = self.main_errors();
        errors.extend(self.feedback.iter().filter_map(|edge| self.feedback_error(edge)));
        for node in &self.nodes {
            for message in [node.stage.takes().feedback, node.stage.gives().feedback].into_iter().flatten() {
                if !self.feedback.iter().any(|edge| edge.message == message) {
                    errors.push(WireError::NoEdge { stage: node.name.clone(), message });
                }
            }
        }
        if errors.is_empty() { Ok(CheckedGraph(self)) } else { Err(errors) }
    }

    fn main_errors(&self) -> Vec<WireError> {
        let mut errors = Vec::new();
        let (mut before, mut gives) = ("nothing", None);
        for node in &self.nodes {
            let takes = node.stage.takes().main;
            if takes != gives {
                errors.push(WireError::Main {
                    stage: node.name.clone(),
                    takes: takes.unwrap_or("nothing"),
                    before: before.into(),
                    gives: gives.unwrap_or("nothing"),
                });
            }
            if node.capacity == 0 {
                errors.push(WireError::NoQueue { stage: node.name.clone() });
            }
            (before, gives) = (&node.name, node.stage.gives().main);
        }
        if let Some(gives) = gives {
            errors.push(WireError::OpenEnd { stage: before.into(), gives });
        }
        errors
    }

    fn feedback_error(&self, edge: &Feedback) -> Option<WireError> {
        let (message, initial, capacity) = (edge.message, edge.initial.len(), edge.capacity);
        let readers = self.ends(|node| node.stage.takes().feedback == Some(message));
        let writers = self.ends(|node| node.stage.gives().feedback == Some(message));
        let fits = matches!((&readers[..], &writers[..]), ([reader], [writer]) if reader < writer)
            && (1..=capacity).contains(&initial);
        let (readers, writers) = (readers.len(), writers.len());
        (!fits).then_some(WireError::Feedback { message, writers, readers, initial, capacity })
    }

    fn ends(&self, is_end: impl Fn(&Node) -> bool) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&idx| is_end(&self.nodes[idx])).collect()
    }
}

impl CheckedGraph {
    /// Puts a stage of the same ends in the place of the one of that name.
    ///
    /// # Panics
    /// There is none, or its ends are others.
    pub fn replace(&mut self, name: &str, stage: Box<dyn AnyStage>) {
        let ends = |stage: &dyn AnyStage| (stage.takes(), stage.gives());
        let node = self.0.nodes.iter_mut().find(|node| node.name == name);
        let node = node.unwrap_or_else(|| panic!("the graph has no stage {name}"));
        assert_eq!(ends(&*stage), ends(&*node.stage), "ends of {name}");
        node.stage = stage;
    }

    /// Lets an observer see every message of type `M` that a stage takes on its main edge.
    pub fn observe<M: Message>(&mut self, stage: &str, mut observer: impl FnMut(&M) + Send + 'static) {
        if let Some(node) = self.0.nodes.iter_mut().find(|node| node.name == stage) {
            node.observer = Some(Box::new(move |token| {
                if let Some(message) = token.downcast_ref() {
                    observer(message);
                }
            }));
        }
    }
}
