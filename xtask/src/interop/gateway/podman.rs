//! podman and rootlesskit themselves, as an ordinary user, with our drop-ins found first.
//!
//! They run in a copy of a Debian tree, which `WIRESPEED_TREE` names; it is made by `debootstrap
//! --variant=minbase --include=podman,netavark,aardvark-dns,crun,uidmap,rootlesskit,slirp4netns sid
//! DIR`. The image of the containers is made of this machine's busybox. `tree.sh` enters the tree.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::scene::Site;
use crate::interop::Workbench;
use crate::interop::host::Running;
use crate::interop::ip::until;
use crate::interop::outside::shown;
use crate::interop::router::scene::tail;

const LONG: Duration = Duration::from_secs(120);

/// An image with busybox and curl, and ip(8) for the tree, each with this machine's libraries.
const IMAGE: &str = "\
set -e; cd \"$1\"; mkdir -p image ip/lib; cd image
mkdir -p bin etc tmp proc sys dev root www
for program in busybox curl; do
  file=$(command -v $program); cp -L $file bin/$program
  for lib in $(ldd $file | grep -oE '/[^ ]+'); do mkdir -p .$(dirname $lib); cp -L $lib .$lib; done
done
for name in sh ip httpd cat sleep nslookup; do ln -sf busybox bin/$name; done
echo root:x:0:0:root:/root:/bin/sh > etc/passwd; echo hello from the container > www/index.html
tar -cf ../image.tar .
cd ../ip; cp -L $(command -v ip) ip
for lib in $(ldd ip | grep -oE '/[^ ]+'); do cp -L $lib lib/; done
cp -L $(ldd ip | grep -oE '/[^ ]*ld-linux[^ ]*') loader
";

/// The tree, and the machine that it is on.
struct Tree<'a> {
    site: Site<'a>,
    path: String,
}

impl<'a> Tree<'a> {
    fn new(bench: &'a Workbench) -> Result<Tree<'a>> {
        let path = std::env::var("WIRESPEED_TREE").context(
            "WIRESPEED_TREE has to name a Debian tree: see xtask/src/interop/gateway/podman.rs",
        )?;
        let site = Site::new(bench)?;
        let folder = bench.path("");
        bench.run(Command::new("sh").args(["-c", IMAGE, "sh", shown(&folder)?]), LONG)?;
        // The user of the tree writes there.
        std::fs::create_dir(bench.path("out"))?;
        std::os::unix::fs::chown(bench.path("out"), Some(1000), Some(1000))?;
        Ok(Tree { site, path })
    }

    fn command(&self, line: &str) -> Result<Command> {
        let bench = self.site.bench;
        let script = bench.root().join("xtask/src/interop/gateway/tree.sh");
        let folder = bench.path("");
        let folder = shown(&folder)?.trim_end_matches('/').to_owned();
        let mut command = self.site.host.command("sh");
        command.args([shown(&script)?, &self.path, &folder, line]);
        Ok(command)
    }

    /// Run a line, which has to end well; returns its output and errors.
    fn run(&self, line: &str) -> Result<String> {
        let line = format!("exec 2>&1\n{line}\n");
        self.site.bench.run(&mut self.command(&line)?, LONG)
    }

    /// Start a line, whose output goes to files of this name.
    fn start(&self, name: &str, line: &str) -> Result<Running> {
        self.site.host.start(name, &mut self.command(line)?)
    }

    /// The page of a published port, as another machine gets it.
    fn page(&self, port: u16) -> Result<String> {
        let mut curl = self.site.router.command("curl");
        let url = format!("http://10.77.0.2:{port}/");
        self.site.bench.run(curl.args(["-sS", "-m", "5", &url]), LONG)
    }
}

fn has(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "no '{part}' in {}", tail(text));
    }
    Ok(())
}

pub(super) fn podman(bench: &Workbench) -> Result<()> {
    let tree = Tree::new(bench)?;
    let text = tree.run(
        "podman import /case/image.tar tiny\n\
         podman run --rm tiny sh -c 'ip address show dev eth0; cat /etc/resolv.conf; \
         curl -sS http://web.example/; nslookup web.example'",
    )?;
    has(&text, &["10.0.2.100/24", "nameserver 169.254.1.1", "hello from the server", "8.8.4.80"])?;
    println!("  podman run: address, names, http");
    let text = tree.run(
        "podman import /case/image.tar tiny\n\
         printf 'FROM tiny\\nRUN curl -sS http://web.example/\\n' > Containerfile\n\
         podman build -t built .",
    )?;
    has(&text, &["hello from the server"])?;
    println!("  podman build: http");
    let server = tree.start(
        "published",
        "podman import /case/image.tar tiny > /dev/null\n\
         podman run --rm -p 18080:80 tiny httpd -f -vv -p 80 -h /www",
    )?;
    until("the published port answers", LONG, || Ok(tree.page(18080).is_ok()))?;
    has(&tree.page(18080)?, &["hello from the container"])?;
    let log = tree.site.read("published.err") + &tree.site.read("published.out");
    has(&log, &["10.77.0.1"])?;
    drop(server);
    println!("  podman run -p: the container sees the client's address");
    let text = tree.run(
        "podman import /case/image.tar tiny\n\
         podman network create net1\n\
         podman run --rm --network net1 tiny curl -sS http://web.example/",
    )?;
    has(&text, &["hello from the server"])?;
    println!("  podman run on a bridge: http");
    Ok(())
}

/// A server for clients outside, at port 8095 inside.
const SERVER: &str = "\
loader=$(ls -d /home/tester/fs/lib*/ld-linux*)
libs=$(find /home/tester/fs -name '*.so*' -printf '%h:' | tr ':' '\\n' | sort -u | tr '\\n' ':')
in_image() { name=$1; shift; $loader --library-path $libs /home/tester/fs/bin/$name \"$@\"; }
ip -br address; cat /etc/resolv.conf; in_image curl -sS http://web.example/
in_image busybox httpd -p 8095 -h /home/tester/fs/www; echo serving; sleep 300
";

pub(super) fn rootlesskit(bench: &Workbench) -> Result<()> {
    let tree = Tree::new(bench)?;
    std::fs::write(bench.path("server.sh"), SERVER)?;
    for (name, options, port) in [
        ("pasta", "--port-driver=implicit", 8095),
        ("slirp4netns", "--port-driver=slirp4netns -p 0.0.0.0:18090:8095/tcp", 18090),
    ] {
        let line = format!(
            "mkdir fs && tar -xf /case/image.tar -C fs\n\
             exec rootlesskit --net={name} {options} --copy-up=/etc sh /case/server.sh"
        );
        let running = tree.start(name, &line)?;
        let serves = tree.site.wait_for(&format!("{name}.out"), "serving");
        serves.with_context(|| tail(&tree.site.read(&format!("{name}.err"))).to_owned())?;
        let text = tree.site.read(&format!("{name}.out"));
        has(&text, &["tap0", "10.0.2.100/24", "hello from the server"])?;
        until("the published port answers", LONG, || Ok(tree.page(port).is_ok()))?;
        has(&tree.page(port)?, &["hello from the container"])?;
        drop(running);
        println!("  rootlesskit --net={name} {options}: http, and port {port}");
    }
    Ok(())
}
