//! Three formulas in Salt's idiom (`examples/salt`), applied for real: on a throw-away layer over this machine, as root.

use crate::scratch::Scratch;
use zester_rule::rule;
use zester_testkit::skip;

/// What happens on the layer. `99`: no layer can be made here; `98`: no packages can be had.
const STORY: &str = r#"
set -u
layer=@T@/layer
mkdir -p $layer && mount -t tmpfs tmpfs $layer || exit 99
mkdir -p $layer/upper $layer/work $layer/root
mount -t overlay overlay -o lowerdir=/,upperdir=$layer/upper,workdir=$layer/work $layer/root || exit 99
mount -t proc proc $layer/root/proc && mount --rbind /dev $layer/root/dev || exit 99
home=$layer/root/opt/formulas
mkdir -p $home && cp -r "$TREE" $home/tree && cp "$ZESTER" $home/zester || exit 99
chroot $layer/root sh -c 'command -v apt-get >/dev/null && ! command -v nginx && ! command -v chronyd && ! command -v sudo \
  && apt-get -qq -s install nginx-light chrony sudo' >/dev/null 2>&1 || exit 98
cat > $home/story.sh <<'STORY'
cd /opt/formulas/tree
export ZESTER_DATA_DIR=/opt/formulas/data NO_COLOR=1 SUDO_FORCE_REMOVE=yes
run() { word=$1; shift; /opt/formulas/zester $word --states salt --settings pillar "$@" > /opt/formulas/out 2>&1; code=$?; }
told() { echo "$1: code $code: $(grep -E '^[0-9]+ (changed|would change|reverted)' /opt/formulas/out)"; grep -A3 '✗' /opt/formulas/out; }
run check; told check
run apply; told apply
run apply; told again
id zdeploy; cat /etc/sudoers.d/zdeploy; cat /home/zdeploy/.ssh/authorized_keys; readlink /etc/nginx/sites-enabled/shop
cat /etc/nginx/sites-available/shop; cat /etc/chrony/chrony.conf; ls /etc/nginx/sites-enabled/blog
echo broken > /etc/chrony/chrony.conf; rm /etc/nginx/sites-enabled/shop; chmod 600 /etc/sudoers.d/zdeploy
run check; told drift
run apply; told repaired
run check; told clean
run revert; told back; run revert --force; told undone
id zdeploy; ls /etc/sudoers.d/zdeploy /etc/nginx/sites-available/shop /srv/zshop; command -v nginx || echo no nginx
STORY
# A group of its own: that of the caller lies outside of this space of processes.
chroot $layer/root setsid --wait sh /opt/formulas/story.sh
"#;

#[test]
#[rule("S-49", "S-31", "S-58")]
fn s49_three_formulas_for_salt_are_checked_applied_repaired_and_undone_on_a_real_machine() {
    if !nix::unistd::geteuid().is_root() {
        skip!("only root can manage packages and accounts");
    }
    let scratch = Scratch::new();
    scratch.write("story.sh", STORY);
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/salt");
    let output = std::process::Command::new("unshare")
        // What is started there ends with it.
        .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh"])
        .arg(scratch.path("story.sh"))
        .env("TREE", tree)
        .env("ZESTER", env!("CARGO_BIN_EXE_zester"))
        .output()
        .unwrap();
    match output.status.code() {
        Some(99) => skip!("no layer can be laid over this machine"),
        Some(98) => skip!("there are no packages to be had here, or they are installed already"),
        _ => {}
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let line = |word: &str| said.lines().find(|line| line.starts_with(word)).unwrap_or("").to_string();
    assert!(line("check: ").contains("code 0") && line("check: ").contains(" 0 failed"), "{said}");
    assert!(line("apply: ").contains("code 0") && line("apply: ").contains(" 0 failed"), "{said}");
    assert!(line("again: ").contains("code 0: 0 changed"), "{said}");
    assert!(said.contains("(zdeploy)") && said.contains("(zops)"), "{said}");
    assert!(said.contains("zdeploy ALL=(root) NOPASSWD: /usr/bin/systemctl reload nginx\n"), "{said}");
    assert!(said.contains("deploy@example") && said.contains("/etc/nginx/sites-available/shop"), "{said}");
    assert!(
        said.contains("listen 127.0.0.1:8091;") && said.contains("# salt://web/files/site.conf.jinja: shop")
    );
    assert!(said.contains("pool 1.debian.pool.ntp.org iburst\nmakestep 1.0 3\n"), "{said}");
    for word in ["repaired: ", "back: ", "undone: "] {
        assert!(line(word).contains("code 0"), "{word} {said}");
    }
    assert!(!line("drift: ").contains(": 0 would change"), "{said}");
    assert!(line("clean: ").contains(": 0 would change"), "{said}");
    assert!(said.contains("no nginx"), "{said}");
}
