use super::*;

fn host(name: &str) -> ClientName {
    ClientName::Host(name.into())
}

fn group(name: &str) -> ClientName {
    ClientName::Netgroup(name.into())
}

fn addresses(list: &[&str]) -> Result<Found, LookupError> {
    let addresses = list.iter().map(|address| address.parse().unwrap());
    Ok(Found::Addresses(addresses.collect()))
}

fn hosts(list: &[&str]) -> Result<Found, LookupError> {
    let hosts = list.iter().map(|&host| host.to_owned()).collect();
    Ok(Found::Hosts(NetgroupHosts {
        hosts,
        ..NetgroupHosts::default()
    }))
}

fn silent() -> Result<Found, LookupError> {
    Err(LookupError::Unavailable("silence".to_owned()))
}

/// Names whose questions are answered by a function.
struct Asked {
    names: Names,
    now: Instant,
}

impl Asked {
    fn new() -> Self {
        Self {
            names: Names::default(),
            now: Instant::now(),
        }
    }

    /// Asks and answers until nothing is due; returns what was asked.
    fn round(
        &mut self,
        wanted: &[ClientName],
        answer: impl Fn(&str) -> Result<Found, LookupError>,
    ) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let questions = self.names.ask(wanted.iter(), self.now);
            if questions.is_empty() {
                return all;
            }
            for question in questions {
                let name = match &question {
                    Question::Addresses(host) => host.to_string(),
                    Question::Hosts(group) => format!("@{group}"),
                };
                self.names.learn(&question, answer(&name), self.now);
                all.push(name);
            }
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn state(&self, name: &ClientName) -> (NameState, usize) {
        let resolved = self.names.resolved(name, self.now);
        (resolved.state, resolved.addresses.len())
    }
}

#[test]
fn a_host_is_asked_for_when_its_time_has_come_and_not_before() {
    let (mut asked, name) = (Asked::new(), host("a"));
    let wanted = [name.clone()];
    let answer = |_: &str| addresses(&["10.0.0.1", "fd00::1"]);
    assert_eq!(asked.state(&name), (NameState::Asked, 0));
    assert_eq!(asked.round(&wanted, answer), ["a"]);
    assert_eq!(asked.state(&name), (NameState::Known, 2));
    asked.pass(limits::CLIENT_NAME_SECONDS - 1);
    assert_eq!(asked.round(&wanted, answer), [""; 0]);
    assert_eq!(asked.names.next_in(asked.now), Duration::from_secs(1));
    asked.pass(1);
    assert_eq!(asked.round(&wanted, answer), ["a"]);
    asked.names.forget_times();
    assert_eq!(asked.round(&wanted, answer), ["a"]);
    assert_eq!(asked.names.figures(), (3, 0));
}

#[test]
fn a_name_that_is_gone_matches_nobody_at_once_and_a_silence_only_after_a_while() {
    let (mut asked, name) = (Asked::new(), host("a"));
    let wanted = [name.clone()];
    asked.round(&wanted, |_| addresses(&["10.0.0.1"]));
    asked.pass(limits::CLIENT_NAME_SECONDS);
    asked.round(&wanted, |_| silent());
    assert_eq!(asked.state(&name), (NameState::Kept, 1));
    asked.pass(limits::CLIENT_NAME_KEPT_SECONDS_MAX - limits::CLIENT_NAME_SECONDS);
    asked.round(&wanted, |_| silent());
    assert_eq!(asked.state(&name), (NameState::Nobody, 0));
    asked.pass(limits::CLIENT_NAME_FAILED_SECONDS);
    asked.round(&wanted, |_| addresses(&["10.0.0.2"]));
    assert_eq!(asked.state(&name), (NameState::Known, 1));
    asked.pass(limits::CLIENT_NAME_SECONDS);
    asked.round(&wanted, |_| Err(LookupError::Unknown));
    assert_eq!(asked.state(&name), (NameState::Nobody, 0));
    // What was there before it was gone does not come back with a silence.
    asked.pass(limits::CLIENT_NAME_FAILED_SECONDS);
    asked.round(&wanted, |_| silent());
    assert_eq!(asked.state(&name), (NameState::Nobody, 0));
}

#[test]
fn an_answer_that_does_not_come_is_told_and_taken_when_it_comes() {
    let (mut asked, name) = (Asked::new(), host("a"));
    let questions = asked.names.ask([&name].into_iter(), asked.now);
    assert_eq!(asked.state(&name), (NameState::Asked, 0));
    let late = Duration::from_secs(limits::CLIENT_NAME_WAIT_SECONDS_MAX);
    assert_eq!(asked.names.next_in(asked.now), late);
    asked.now += late;
    assert_eq!(asked.state(&name), (NameState::Nobody, 0));
    assert!(asked.names.ask([&name].into_iter(), asked.now).is_empty());
    asked
        .names
        .learn(&questions[0], addresses(&["10.0.0.1"]), asked.now);
    assert_eq!(asked.state(&name), (NameState::Known, 1));
}

#[test]
fn a_netgroup_is_its_hosts_as_far_as_they_have_addresses() {
    let (mut asked, name) = (Asked::new(), group("g"));
    let wanted = [name.clone()];
    let answer = |name: &str| match name {
        "@g" => hosts(&["a", "b", "192.0.2.9"]),
        "a" => addresses(&["10.0.0.1"]),
        _ => Err(LookupError::Unknown),
    };
    assert_eq!(asked.round(&wanted, answer), ["@g", "a", "b"]);
    assert_eq!(asked.state(&name), (NameState::Partly, 2));
    let trouble = asked.names.resolved(&name, asked.now).trouble;
    assert!(trouble.contains("1 of its 3 hosts"), "{trouble}");
    // A host that leaves the group is asked for no more, and let in no more.
    asked.names.forget_times();
    asked.round(&wanted, |name| match name {
        "@g" => hosts(&["192.0.2.9"]),
        name => answer(name),
    });
    assert_eq!(asked.state(&name), (NameState::Known, 1));
    asked.names.ask(wanted.iter(), asked.now);
    assert_eq!(asked.names.known.len(), 1);
}

#[test]
fn a_member_without_a_host_lets_nobody_in() {
    let (mut asked, name) = (Asked::new(), group("g"));
    asked.round(std::slice::from_ref(&name), |_| {
        Ok(Found::Hosts(NetgroupHosts {
            names_everybody: true,
            ..NetgroupHosts::default()
        }))
    });
    assert_eq!(asked.state(&name), (NameState::Nobody, 0));
    let trouble = asked.names.resolved(&name, asked.now).trouble;
    assert!(trouble.contains("passed over"), "{trouble}");
}

#[test]
fn only_so_many_look_ups_are_under_way_and_hosts_asked_for() {
    let mut asked = Asked::new();
    let many: Vec<ClientName> = (0..20).map(|at| host(&format!("h{at}"))).collect();
    let first = asked.names.ask(many.iter(), asked.now);
    assert_eq!(first.len(), limits::CLIENT_LOOKUPS_MAX);
    assert!(asked.names.ask(many.iter(), asked.now).is_empty());
    // What waits for a place is no reason to look again at once.
    let late = Duration::from_secs(limits::CLIENT_NAME_WAIT_SECONDS_MAX);
    assert_eq!(asked.names.next_in(asked.now), late);
    let mut asked = Asked::new();
    let members: Vec<String> = (0..2 * limits::CLIENT_HOSTS_MAX)
        .map(|at| format!("m{at}"))
        .collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let questions = asked.round(&[group("g")], |name| match name {
        "@g" => hosts(&members),
        _ => addresses(&["10.0.0.1"]),
    });
    assert_eq!(questions.len(), 1 + limits::CLIENT_HOSTS_MAX);
}
