//! The options of `gateway`.
//!
//! Called by: clap, then `gateway.rs`.

use super::spec::Spec;
use crate::gateways::Options;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed gateway --vm qemu:/run/user/1000/vm.sock          then start the machine:
    qemu-system-x86_64 ... -netdev stream,id=n,server=off,addr.type=unix,\\
      addr.path=/run/user/1000/vm.sock -device virtio-net-pci,netdev=n
  wirespeed gateway --vm qemu:vm.sock --allow '*.debian.org'  fenced: nothing else can be reached
  wirespeed gateway --vm qemu:vm.sock -p 8080:80              port 8080 here is the machine's 80
  wirespeed gateway --vm qemu:a.sock --vm vfkit:b.sock        two machines, apart from each other
  wirespeed gateway --switch --vm qemu:a --vm qemu:b          two machines in one network
  wirespeed gateway --vm qemu:vm.sock --link lte              on a bad network

SPEC is how the machine is connected:
  qemu:PATH                a stream socket, at which we listen (-netdev stream,server=off)
  qemu-dgram:LOCAL,REMOTE  datagram sockets: ours and the machine's (-netdev dgram)
  vhost-user:PATH[,client] the machine's memory is shared with us (-netdev vhost-user): fastest; we
                           listen, or with `client` connect to its socket
  passt:PATH               the socket of passt, for machines that know it
  vfkit:PATH, krun:PATH    a datagram socket for a machine that sends first (vfkit, libkrun)
  krun:fd:N                a connected datagram socket, which this process inherits
                           krun and passt take `,offload=on`, for libkrun with its TSO features
  gvproxy:PATH             the same without a greeting
  tap:NAME                 a TAP interface
  tapfd:N                  an open TAP

A machine gets its address by DHCP, and by router advertisements for IPv6: the first one is
10.0.2.100, the gateway 10.0.2.2, the resolver 10.0.2.3. The second --vm has the next network, which
is 10.0.3.0/24, or with --switch the next address. --link takes what `wirespeed netns --help` says.
It runs until Ctrl-C.")]
pub(crate) struct Args {
    /// A virtual machine; may be given several times
    #[arg(long, value_name = "SPEC", required = true)]
    pub(super) vm: Vec<Spec>,
    /// Join all machines by a switch: they have one network and reach each other
    #[arg(long)]
    pub(super) switch: bool,
    #[command(flatten)]
    pub(super) options: Options,
}
