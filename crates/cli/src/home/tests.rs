use super::*;

#[track_caller]
fn check(state_dir: Option<&str>, flags: bool, environment: &str, up: bool, expected: &str) {
    let flags = ClusterFlags { context: flags.then(|| "c".to_owned()), ..ClusterFlags::default() };
    let has = |word: &str| environment.contains(word);
    let environment = Environment {
        state_dir: has("state").then(|| PathBuf::from("/env")),
        kubeconfig: has("KUBECONFIG"),
        kubeconfig_usual: has("usual"),
        in_pod: has("pod"),
    };
    let meant = match choose(state_dir.map(Path::new), &flags, &environment, |_| up) {
        Ok(Meant::Machine(state)) => state.display().to_string(),
        Ok(Meant::Cluster) => "cluster".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(meant.starts_with(expected), "{meant}\nis not\n{expected}");
}

#[test]
fn which_home_is_meant() {
    // What was typed.
    check(Some("/s"), false, "KUBECONFIG", false, "/s");
    check(None, true, "state", true, "cluster");
    check(Some("/s"), true, "", false, "--state-dir selects");
    // What the environment says.
    check(None, false, "state KUBECONFIG", true, "/env");
    check(None, false, "KUBECONFIG", false, "cluster");
    check(None, false, "KUBECONFIG", true, "a mesh runs on this machine, and $KUBECONFIG");
    // What is there.
    check(None, false, "usual", true, STATE_DIR);
    check(None, false, "", true, STATE_DIR);
    check(None, false, "usual", false, "cluster");
    check(None, false, "pod", false, "cluster");
    check(None, false, "", false, "no mesh found: nothing runs in /run/leno");
}
