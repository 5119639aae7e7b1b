//! Ports that listen, ports that connect, their connections after a disconnect, and options that no port can have.
use port::Port;
use port::vhost_user::{Role, VhostUser, VhostUserOptions};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{VringFd, VringState};
use vhost_user::socket::Listener;

use crate::common::SOON;
use crate::common::guest::{Guest, Host};
use crate::plain;

#[test]
fn one_front_end_after_the_other() {
    let mut host = Host::new(|_| {});
    assert!(host.port.describe().contains("waits for a front-end to connect"));
    let first = Guest::running(&mut host, plain());
    // The second waits in the queue until the first has gone.
    let mut second = Guest::connect_bare(&host.path);
    host.turn();
    assert_eq!(host.context.sources.len(), 1);
    drop(first);
    host.until("first gone", |host| host.context.sources.is_empty());
    second.agree(&mut host, plain());
    second.share_memory(&mut host);
    second.start_ring(&mut host, 1);
    assert_eq!(host.context.sources.len(), 1);
    let logged: Vec<_> = host.context.logged.iter().filter(|line| line.contains("disconnected")).collect();
    assert_eq!(logged.len(), 1, "{logged:?}");
    host.port.end(&mut host.context);
    assert!(host.context.sources.is_empty() && host.context.watched() == 0 && !host.path.exists());
}

/// A front-end without shared memory is disconnected, or told no and goes by itself. It connects again and again, so the
/// port waits whenever a user looks.
#[test]
fn a_port_that_waits_says_what_was_wrong_with_the_last_connection() {
    let mut host = Host::new(|_| {});
    for waits_for_answers in [false, true] {
        let mut guest = Guest::connect(&mut host, plain());
        guest.ask(&mut host, Request::SetVringNum(VringState { index: 0, num: 64 }), vec![]);
        let kick = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let started = Request::SetVringKick(VringFd { index: 0, has_fd: true });
        let mut message = guest.session.request(started, vec![kick]).unwrap();
        message.header.need_reply = waits_for_answers;
        guest.connection.try_send(message).unwrap();
        host.until("refused", |host| host.context.logged.iter().any(|line| line.contains("share=on")));
        host.context.logged.clear();
        drop(guest);
        host.until("gone", |host| host.port.describe().contains("waits for a front-end to connect"));
        let words = host.port.describe();
        let fault = words.split("; what was wrong with the last one: ").nth(1).unwrap_or("");
        assert!(fault.contains("SET_VRING_KICK: ") && fault.contains("share=on"), "{words}");
        // Nothing was wrong with this one.
        drop(Guest::running(&mut host, plain()));
        host.until("gone", |host| host.port.describe().ends_with("waits for a front-end to connect"));
    }
}

#[test]
fn a_client_connects_when_somebody_listens_and_again_after_that() {
    let mut host = Host::new(|options| options.role = Role::Client);
    assert!(host.port.describe().contains("waits for a front-end to listen"));
    host.context.turn(&mut host.port, SOON);
    host.context.turn(&mut host.port, SOON);
    assert_eq!(host.context.logged.len(), 1, "said once why: {:?}", host.context.logged);
    for _ in 0..2 {
        let listener = Listener::bind(&host.path).unwrap();
        let mut connection = None;
        host.until("connected", |_| {
            connection = listener.try_accept().unwrap();
            connection.is_some()
        });
        let mut guest = Guest::over(connection.unwrap());
        guest.agree(&mut host, plain());
        guest.share_memory(&mut host);
        guest.start_ring(&mut host, 0);
        assert_eq!(host.context.sinks.len(), 1);
        drop((guest, listener));
        host.until("gone", |host| host.context.sinks.is_empty());
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_a_remedy() {
    let error = |change: fn(&mut VhostUserOptions)| {
        let mut options = VhostUserOptions::new("/nowhere/port.sock");
        change(&mut options);
        VhostUser::new(options).err().unwrap().to_string()
    };
    assert!(error(|o| o.net.queue_pairs = 0).contains("1 to 127"));
    assert!(error(|o| o.net.queue_pairs = 128).contains("1 to 127"));
    assert!(error(|o| o.net.mtu = Some(67)).contains("68 to 65535"));
    let mut port = VhostUser::new(VhostUserOptions::new("/nowhere/port.sock")).unwrap();
    let error = port.start(&mut port::testing::TestContext::new()).unwrap_err().to_string();
    assert!(error.contains("/nowhere") && error.contains("give a path"), "{error}");
}
