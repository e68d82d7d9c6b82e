//! `--wait`: as long as anything may come right by itself.

use super::*;

#[test]
fn a_lasting_fault_does_not_end_the_wait() {
    let lasting = |f: &mut Facts| f.pods.push(pod("shop", "old-1", None));
    let mut facts = well(Mode::Whole);
    assert!(!may_pass(&run(&facts)), "all is well");
    lasting(&mut facts);
    assert!(!may_pass(&run(&facts)), "it will not pass");
    // As it is right after an installation.
    facts.objects.remove(LEASE);
    facts.control_pods.clear();
    assert!(may_pass(&run(&facts)));
}
