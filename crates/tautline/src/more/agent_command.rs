//! `tautline agent --listen` and `tautline agent keys`. The agent itself is in `agent.rs`.

use anyhow::Context;
use environment::Agent;
use environment::remote::far::Listener;
use environment::remote::keys;
use measure::Failure;
use workload::protocol::Reply;

use super::serving::serve;
use crate::exit::Done;
use crate::{cli, output};

pub fn run(arguments: &cli::Agent) -> anyhow::Result<Done> {
    if let Some(cli::AgentCommand::Keys(arguments)) = &arguments.command {
        return make_keys(arguments);
    }
    let address = arguments.listen.as_deref().expect("clap asks for it or for a command");
    let key = match &arguments.key {
        Some(key) => key.clone(),
        None => keys::default_folder()?.join(keys::FAR_FILE),
    };
    let agent = Agent {
        binary: std::env::current_exe().context("finding the own binary; is /proc mounted?")?,
        arguments: vec![workload::agent::ARGUMENT.into()],
        files: Vec::new(),
    };
    let busy = Failure::new(
        format!("asking the agent at {address} for a run"),
        "it is busy with another run",
        "wait until that has ended",
    );
    serve(|_| {
        let listener = Listener::bind(address, &key, agent, Reply::Failed(busy).to_line())?;
        output::remark(&format!("listening on {}; Ctrl-C ends", listener.address()?));
        listener.serve();
        Ok::<_, anyhow::Error>(())
    })
}

fn make_keys(arguments: &cli::AgentKeys) -> anyhow::Result<Done> {
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => keys::default_folder()?,
    };
    let [near, far] = keys::make(&folder, arguments.days)?;
    output::remark(&format!("{}: for the machine that measures", near.display()));
    output::remark(&format!("{}: to be moved to the machine that listens", far.display()));
    Ok(Done::Whole)
}
