//! Requests to an agent, and what its answer may be.

use std::time::Duration;

use environment::{Channel, ChannelError, Running};
use measure::Failure;
use workload::protocol::{AgentFacts, Reply, Request};

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The agent could not carry out the request. It can take further requests.
    Refused(Failure),
    /// The agent answered late, wrongly or not at all. Its next reply may belong to an earlier request.
    Lost(Failure),
    /// The user interrupted.
    Interrupted(Failure),
}

impl From<NoAnswer> for Failure {
    fn from(reason: NoAnswer) -> Self {
        match reason {
            NoAnswer::Refused(failure) | NoAnswer::Lost(failure) | NoAnswer::Interrupted(failure) => failure,
        }
    }
}

const REMEDY: &str = "see its last output; repeat with less to find what it died of";

/// An agent that takes requests. `name` stands for the agent in errors, as in `the agent in vm`.
pub trait Asking {
    /// The channel to the agent.
    fn lines(&mut self) -> &mut Channel;

    /// Describes a channel that broke, with what is known of the agent's process.
    fn why(&mut self, doing: &str, error: &ChannelError) -> Failure;

    /// Waits for the agent's greeting.
    ///
    /// # Errors
    /// No greeting came within `limit`, or the agent is of another version.
    fn greeting(&mut self, name: &str, limit: Duration) -> Result<AgentFacts, NoAnswer> {
        let doing = format!("starting {name}");
        let line = self.lines().receive(limit).map_err(|error| self.broken(&doing, &error))?;
        let facts = Reply::parse(&line).and_then(Reply::greeting);
        facts.map_err(|error| NoAnswer::Lost(Failure::new(doing, error, REMEDY)))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The channel broke, the agent did not read within `limit`, or the user interrupted.
    fn send(&mut self, name: &str, request: &Request, limit: Duration) -> Result<(), NoAnswer> {
        let sent = self.lines().send(request.to_line().trim_end(), limit);
        sent.map_err(|error| self.broken(&format!("asking {name}"), &error))
    }

    /// Waits for any reply, whichever request it answers.
    ///
    /// # Errors
    /// No reply came within `limit`, it is no reply of this version, or the user interrupted.
    fn receive(&mut self, doing: &str, limit: Duration) -> Result<Reply, NoAnswer> {
        let line = self.lines().receive(limit).map_err(|error| self.broken(doing, &error))?;
        Reply::parse(&line).map_err(|error| NoAnswer::Lost(Failure::new(doing, error, REMEDY)))
    }

    /// Waits for the reply to a request that was sent; `pick` takes it out.
    ///
    /// # Errors
    /// The causes of [`Asking::receive`], the agent could not execute the request, or it answered another request.
    fn hear<T>(
        &mut self,
        doing: &str,
        limit: Duration,
        pick: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<T, NoAnswer> {
        let lost = |answer: &str| NoAnswer::Lost(Failure::new(doing, answer, REMEDY));
        match self.receive(doing, limit)? {
            Reply::Failed(failure) => Err(NoAnswer::Refused(failure)),
            Reply::Ready { .. } => Err(lost("it greeted anew: the guest restarted")),
            reply => pick(reply).ok_or_else(|| lost("it answered another question")),
        }
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    /// The causes of [`Asking::send`] and [`Asking::hear`].
    fn ask<T>(
        &mut self,
        name: &str,
        request: &Request,
        limit: Duration,
        pick: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<T, NoAnswer> {
        self.send(name, request, limit)?;
        let doing = format!("waiting for {name} to do {}", request.to_line().trim_end());
        self.hear(&doing, limit, pick)
    }

    /// The error for a channel that broke, or for a run that the user interrupted.
    fn broken(&mut self, doing: &str, error: &ChannelError) -> NoAnswer {
        let failure = self.why(doing, error);
        match error {
            ChannelError::Interrupted => NoAnswer::Interrupted(failure),
            _ => NoAnswer::Lost(failure),
        }
    }
}

impl Asking for Running {
    fn lines(&mut self) -> &mut Channel {
        self.channel()
    }

    fn why(&mut self, doing: &str, error: &ChannelError) -> Failure {
        self.explain(doing, error, REMEDY)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    impl Asking for Channel {
        fn lines(&mut self) -> &mut Channel {
            self
        }

        fn why(&mut self, doing: &str, error: &ChannelError) -> Failure {
            Failure::new(doing, error, "")
        }
    }

    /// The result if the agent answers a request with this line.
    fn answered(line: String) -> Result<u16, NoAnswer> {
        let (own, other) = UnixStream::pair().unwrap();
        let mut channel = Channel::new(own.try_clone().unwrap().into(), own.into()).unwrap();
        let agent = thread::spawn(move || {
            let mut asked = String::new();
            BufReader::new(&other).read_line(&mut asked).unwrap();
            (&other).write_all(line.as_bytes()).unwrap();
        });
        let port = |reply| match reply {
            Reply::FarEnd { port } => Some(port),
            _ => None,
        };
        let answer = channel.ask("the agent", &Request::CloseFarEnd, Duration::from_secs(60), port);
        agent.join().unwrap();
        answer
    }

    #[test]
    fn an_agent_that_refuses_goes_on_and_one_out_of_turn_is_lost() {
        assert_eq!(answered(Reply::FarEnd { port: 7 }.to_line()).unwrap(), 7);
        let refused = answered(Reply::Failed(Failure::new("a", "b", "c")).to_line()).unwrap_err();
        assert!(matches!(refused, NoAnswer::Refused(failure) if failure.tried == "a"));
        for out_of_turn in [
            Reply::Recorder { runs: true }.to_line(),
            Reply::Ready { version: 1, facts: AgentFacts::default() }.to_line(),
            "no reply\n".to_owned(),
            String::new(),
        ] {
            let lost = answered(out_of_turn.clone()).unwrap_err();
            assert!(matches!(lost, NoAnswer::Lost(_)), "{out_of_turn}: {lost:?}");
        }
    }
}
