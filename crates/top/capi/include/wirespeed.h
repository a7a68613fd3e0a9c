// wirespeed: a TCP/IP stack that runs in your process. docs/c.md is the guide.
//
// Made of the library's source by cbindgen; do not edit.
//
// A call returns 0 or a positive result, or a negative error number of the system (<errno.h>), as in
// -EAGAIN; errno is left alone. ws_last_error() has the text to an error, which says what to do.
// -EBADF is the error of a handle that is stale. -EDEADLK is the error of every call inside of a
// callback, except where its comment says otherwise. -ENOTRECOVERABLE means that the library has a
// defect: free the stack and report it. Any thread may call any function at any time.
//
// Pointers to results may be unaligned; arrays may not.

#ifndef WIRESPEED_H
#define WIRESPEED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

// Flag of ws_config: nothing runs outside of this program's calls. The program calls
// ws_stack_poll(), no call waits, and the stack's clock is the program's.
#define WS_POLLED 1

// Frames begin with an Ethernet header.
#define WS_LINK_ETHERNET 0

// Frames are bare IP packets.
#define WS_LINK_IP 1

// A descriptor of a TAP or TUN, or a datagram or seqpacket socket that carries a bare IP packet in
// each message (a VPN service's).
#define WS_FD_PACKETS 0

// A connected stream socket of a virtual machine: each Ethernet frame behind its length in 32
// bits, big-endian (QEMU's `-netdev stream`, passt).
#define WS_FD_VM_STREAM 1

// A connected datagram socket of a virtual machine: an Ethernet frame in each message (QEMU's
// `-netdev dgram`, vfkit, libkrun).
#define WS_FD_VM_DGRAM 2

// For gateways only: a listening Unix socket of vhost-user; the machine's memory is shared.
#define WS_FD_VM_VHOST 3

// For gateways only: a TAP interface, opened with IFF_TAP | IFF_NO_PI | IFF_VNET_HDR.
#define WS_FD_VM_TAP 4

// Flag of ws_gateway_config: a switch joins the machines. They are in one network and reach each
// other. Without it each machine has a network of its own.
#define WS_SWITCHED 1

// Level of a log message: something failed, and the message says what to do.
#define WS_LOG_ERROR 3

// Level of a log message: something may be wrong.
#define WS_LOG_WARNING 4

// Level of a log message: what the stack does.
#define WS_LOG_INFO 6

// Data, a connection to accept, the end of the stream, or an error: the next call to receive or
// accept does not wait. Equal to the system's POLLIN.
#define WS_IN 1

// Room to send, the end of a connect, or an error. Equal to the system's POLLOUT.
#define WS_OUT 4

// In results only: the handle is stale. Equal to the system's POLLNVAL.
#define WS_STALE 32

// A stack: a host of its own on the network, inside of this process. Never 0 and never negative.
typedef int64_t ws_stack;

// A limit of a stack, by its name.
typedef struct {
    // The name, for example "mbuf_bytes" (bytes of buffers that the stack may hold, 256 MiB by
    // default), "connections" or "udp_queue_bytes". The error of an unknown name lists all.
    const char *name;
    // The value: bytes if the name ends in "bytes", else a number.
    uint64_t value;
} ws_limit;

// Called for each message of the log: level is WS_LOG_ERROR, WS_LOG_WARNING or WS_LOG_INFO,
// message ends with a zero byte and is valid during the call. Any thread may call it, several at
// once too. It may call nothing of this library (-EDEADLK), and must not throw.
typedef void (*ws_log_callback)(void *user, int level, const char *message);

// A frame that a port received or sent, for ws_trace_callback. It is valid during the call.
typedef struct {
    // Time on the stack's clock in nanoseconds.
    uint64_t time_ns;
    // The frame, with its link header if the port has them.
    const uint8_t *bytes;
    // Its length in bytes. A super-segment of a TUN or TAP with offloads is one frame.
    size_t length;
    // The port.
    int port;
    // 0: the port received the frame; 1: the port sent it.
    int is_sent;
} ws_frame;

// Called for each frame of each port of the stack, in order. One thread at a time calls it for a
// stack. It may call nothing of this library (-EDEADLK), and must not throw.
typedef void (*ws_trace_callback)(void *user, const ws_frame *frame);

// Settings of a stack. Fill it with zeros, set size to sizeof(ws_config), and then the fields that
// you need: zero stands for the default.
typedef struct {
    // sizeof(ws_config).
    size_t size;
    // 0 or WS_POLLED.
    uint32_t flags;
    // How many entries limits has.
    uint32_t limit_count;
    // Limits that differ from their defaults. The library copies them.
    const ws_limit *limits;
    // 128 secret bits, with which sequence numbers and ports are drawn. Zeros: the system's random
    // numbers. In a polled stack equal seeds, calls and frames give equal frames.
    uint64_t seed[2];
    // The log, or NULL.
    ws_log_callback log;
    // Sees each frame, or NULL.
    ws_trace_callback trace;
    // Passed to log and trace.
    void *user;
} ws_config;

// A device of the program's own: the other end of a port. One thread at a time calls its
// functions, though not always the same one; they must not wait, may call nothing of this library
// except ws_port_wake(), and must not throw.
typedef struct {
    // sizeof(ws_device).
    size_t size;
    // Passed to the functions.
    void *user;
    // Copies the next frame for the stack to the front of frame, which has room for the largest
    // one, and returns its length in bytes; 0: there is none now (call ws_port_wake() when there
    // is); a negative error number: the device is gone for good.
    int64_t (*receive)(void *user, uint8_t *frame, size_t room);
    // Takes a frame from the stack and returns 0; -EAGAIN: there is no room now, and the same
    // frame comes again later (after ws_port_wake()); another negative error number: the frame is
    // lost.
    int (*transmit)(void *user, const uint8_t *frame, size_t length);
    // Called once, after the last call of the others: the port was removed or the stack freed. May
    // be NULL.
    void (*release)(void *user);
    // WS_LINK_ETHERNET or WS_LINK_IP.
    uint32_t link;
    // The largest packet in bytes, without link header; 0: 1,500.
    uint32_t mtu;
} ws_device;

// A socket: a connection, a listener, a datagram socket or a forwarder. Never 0 and never
// negative. A handle is used once: after ws_close() it is stale for ever, and calls with it
// return -EBADF.
typedef int64_t ws_sock;

// News of a watched socket, from ws_events().
typedef struct {
    // The socket.
    ws_sock socket;
    // What ws_watch() was called with.
    void *user;
    // WS_IN, WS_OUT or both.
    short events;
} ws_event;

// What ws_poll() asks and answers for one socket.
typedef struct {
    // The socket. Entries with a negative number are skipped.
    ws_sock socket;
    // What the program waits for: WS_IN, WS_OUT or both.
    short events;
    // What there is: WS_IN, WS_OUT, WS_STALE, or 0.
    short revents;
} ws_pollfd;

// A gateway: the network of virtual machines, in a thread of this process. Never 0 and never
// negative. A handle is used once: after ws_gateway_stop() it is stale for ever.
typedef int64_t ws_gateway;

// The link of a virtual machine.
typedef struct {
    // The descriptor. The library makes a copy of it.
    int fd;
    // What it is. WS_FD_VM_STREAM: a connected socket serves one machine, a listening one serves
    // one machine after the other. WS_FD_VM_DGRAM: a socket without a peer waits until the machine
    // sends. WS_FD_VM_VHOST, WS_FD_VM_TAP.
    int kind;
} ws_vm;

// Called with a text of a gateway, which ends with a zero byte and is valid during the call. The
// gateway's thread calls it and waits for it. It may call nothing of this library (-EDEADLK), and
// must not throw.
typedef void (*ws_text_callback)(void *user, const char *text);

// Settings of a gateway. Fill it with zeros, set size to sizeof(ws_gateway_config), add a machine,
// and then set the fields that you need: zero stands for the default. The library copies them all.
typedef struct {
    // sizeof(ws_gateway_config).
    size_t size;
    // How many entries vms has, at least 1.
    size_t vm_count;
    // The links of the machines.
    const ws_vm *vms;
    // The rules, in the language of docs/gateway.md: what may be reached, published ports, limits,
    // name servers. NULL and an empty text deny everything.
    const char *policy;
    // The private IPv4 network, or "off"; NULL: "10.0.2.0/24". The gateway is .2 and stands for
    // the host, the resolver is .3, and the first machine gets .100 by DHCP.
    const char *net4;
    // The IPv6 network, or "off"; NULL: "ula", a random one.
    const char *net6;
    // The name servers behind the resolver, for example "9.9.9.9,2620:fe::fe", or "off"; NULL:
    // "host", those of the host, also when they change.
    const char *dns;
    // Takes a line of JSON for each flow that ended or was refused, without its end of line; or
    // NULL.
    ws_text_callback log;
    // Takes messages for people, or NULL.
    ws_text_callback say;
    // Passed to log and say.
    void *user;
    // 0 or WS_SWITCHED.
    uint32_t flags;
    // The MTU that machines are told, 576 to 65,520 (1,280 at least with IPv6); 0: 65,520, which
    // costs least.
    uint32_t mtu;
} ws_gateway_config;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, for example "0.1.0". The text is static.
const char *ws_version(void);

// Copy the text of the last error of the calling thread to buffer, with a zero byte behind it, cut
// to size bytes. It says what went wrong and what to do, for people. Callbacks may call it too.
//
// Returns the length of the whole text in bytes, without the zero byte; 0 if no call of this
// thread has failed; -EFAULT if buffer is NULL and size is not 0; -EINVAL if size is beyond the
// address space.
int64_t ws_last_error(char *buffer, size_t size);

// Copy the system's text for an error number to buffer, with a zero byte behind it, cut to size
// bytes. The number may have either sign. Callbacks may call it too.
//
// Returns the length of the whole text; -EFAULT and -EINVAL as ws_last_error().
int64_t ws_strerror(int number, char *buffer, size_t size);

// Make a stack, which has no ports yet and does not run. config may be NULL, for the defaults.
//
// Returns the stack; -EINVAL or -E2BIG if config is not understood, -ENOENT if a limit has no such
// name, -EMFILE if the process has no descriptor left.
ws_stack ws_stack_new(const ws_config *config);

// Run the stack in a thread of the library, which blocks all signals. From now on calls may wait.
// Ports, addresses and sockets may be made before and after.
//
// Returns 0; -EALREADY if it runs, -EINVAL if it is polled; -EAGAIN if the system has no thread,
// which ends the stack: free it.
int ws_stack_start(ws_stack stack);

// Free a stack: its thread ends, its sockets become stale, calls that wait in other threads return
// errors, and no callback of the stack is called any more, except for the release of devices: the
// last call of another thread, if there is one, makes it when it returns. Data that was not sent
// is lost: to send it, shut the connections down and wait for the peers' ends first.
//
// Returns 0; -EBADF.
int ws_stack_free(ws_stack stack);

// Poll a stack that was made with WS_POLLED: receive and send frames, run the timers that are due,
// at the time now_ns. The time is in nanoseconds, from any beginning. It does not go back: an
// earlier time, or one 2^63 ns later, counts as the last one. Between two polls it stands still.
// The stack sends what calls write at once, without waiting for a poll.
//
// Returns 0; -EINVAL if the stack was not made with WS_POLLED; -ESHUTDOWN if it has ended.
int ws_stack_poll(ws_stack stack, uint64_t now_ns);

// When to poll a stack again, in the time of ws_stack_poll(): stored in *at_ns. 0: at once.
// UINT64_MAX: not before a frame comes or a call is made. A frame may come at any time: poll when
// ws_stack_fd() is readable, or whenever your device has frames.
//
// Returns 0; -EINVAL if the stack was not made with WS_POLLED; -EFAULT if at_ns is NULL.
int ws_next_deadline(ws_stack stack, uint64_t *at_ns);

// Add a port to a TUN interface of the kernel: bare IP packets. name may be NULL, then the kernel
// chooses one; an interface that does not exist is made, and goes with the stack. kernel_address,
// for example "192.0.2.1/24", is given to the kernel's end, which is brought up; with NULL the
// interface is left as it is. Give the stack's end an address with ws_address_add().
//
// Returns the port's number; -EPERM without CAP_NET_ADMIN, -EINVAL for the name or the address,
// -EBUSY if the interface is in use, -ENODEV if the kernel has no TUN; -EBADF.
int ws_port_tun(ws_stack stack, const char *name, const char *kernel_address);

// As ws_port_tun(), for a TAP interface: Ethernet frames.
//
// Returns as ws_port_tun().
int ws_port_tap(ws_stack stack, const char *name, const char *kernel_address);

// Add a port over a descriptor, which kind says what it is: WS_FD_PACKETS, WS_FD_VM_STREAM or
// WS_FD_VM_DGRAM. The library makes a copy of the descriptor, and makes it nonblocking; yours may
// be closed. mtu is the largest packet in bytes, 0 for 1,500.
//
// Returns the port's number; -EBADF if the stack or the descriptor is none, -EINVAL for kind and
// mtu, -EINVAL or -ENOTSOCK if the descriptor is of another kind.
int ws_port_descriptor(ws_stack stack, int fd, int kind, uint32_t mtu);

// Add a port over a device of the program's own, which is copied. Its release is called in the
// end, not if this call fails.
//
// Returns the port's number; -EFAULT if device, its receive or its transmit is NULL; -EINVAL for
// size, link and mtu; -E2BIG; -EBADF.
int ws_port_device(ws_stack stack, const ws_device *device);

// Say that a device of the program has a frame for the stack, or room again. Any thread may call
// it, and so may the device's own functions. A polled stack then wants to be polled.
//
// Returns 0; -ENODEV if the port is not one of ws_port_device(); -EBADF.
int ws_port_wake(ws_stack stack, int port);

// Join two stacks by a wire in memory, with a port at each end: Ethernet, with an MTU of 1,500
// bytes. The ports' numbers are stored in *port_a and *port_b, which may be NULL. Add addresses of
// one network to both.
//
// Returns 0; -EBADF.
int ws_pair(ws_stack a, ws_stack b, int *port_a, int *port_b);

// Remove a port. Its connections fail with -ENETDOWN, its addresses and routes go, its device is
// released.
//
// Returns 0; -ENODEV if there is no such port; -EBADF.
int ws_port_remove(ws_stack stack, int port);

// Give an address to a port, for example "192.0.2.1/24" or "2001:db8::1/64". Its network becomes a
// route. It is used at once: nobody is asked whether another host has it.
//
// Returns 0; -EINVAL if the text is no such address, or it cannot be a host's; -ENODEV if there is
// no such port, -ENOBUFS at a limit; -EFAULT, -EBADF.
int ws_address_add(ws_stack stack, int port, const char *address);

// Take an address from a port, for example "192.0.2.1". Its connections go on only if it comes
// back.
//
// Returns 0; -EADDRNOTAVAIL if the port does not have it; -EINVAL, -ENODEV, -EFAULT, -EBADF.
int ws_address_remove(ws_stack stack, int port, const char *address);

// Add a route: packets to destination, for example "0.0.0.0/0", leave by the port, to the gateway
// via, for example "192.0.2.254"; with NULL they go to their destinations directly. Of several
// routes the one with the longest prefix counts.
//
// Returns 0; -EINVAL if a text is not understood, -ENODEV if there is no such port, -ENOBUFS at
// the limit of routes or if the route is there already; -EFAULT, -EBADF.
int ws_route_add(ws_stack stack, const char *destination, const char *via, int port);

// Remove the routes to destination that leave by the port.
//
// Returns how many were removed; -EINVAL, -EFAULT, -EBADF.
int ws_route_remove(ws_stack stack, const char *destination, int port);

// Say which link address a neighbour has, for example "192.0.2.9" and "02:00:00:00:00:09": nobody
// is asked by ARP or neighbour discovery then.
//
// Returns 0; -EINVAL if a text is not understood, -ENOBUFS at the limit of neighbours; -ENODEV,
// -EFAULT, -EBADF.
int ws_neighbour_add(ws_stack stack, int port, const char *address, const char *mac);

// Store the value of a counter in *value, by name: a counter of docs/counters.md, for example
// "tcp_retransmits", or a reason to drop packets, for example "ip_no_route".
//
// Returns 0; -ENOENT if there is no such counter; -EFAULT, -EBADF.
int ws_counter(ws_stack stack, const char *name, uint64_t *value);

// Store the value of a limit in *value, and in *hits how often it was hit; either may be NULL.
//
// Returns 0; -ENOENT if there is no such limit; -EFAULT if name is NULL; -EBADF.
int ws_limit_of(ws_stack stack, const char *name, uint64_t *value, uint64_t *hits);

// Make a socket of a stack: family AF_INET or AF_INET6, kind SOCK_STREAM or SOCK_DGRAM, to which
// SOCK_NONBLOCK may be added (SOCK_CLOEXEC is ignored), protocol 0 or IPPROTO_TCP or IPPROTO_UDP.
//
// Returns the socket; -EAFNOSUPPORT, -EPROTONOSUPPORT; -EBADF.
ws_sock ws_socket(ws_stack stack, int family, int kind, int protocol);

// Bind a socket to an address of its stack, or to 0.0.0.0 or [::] for all; port 0 stands for a
// free one, which ws_getsockname() tells (of a stream socket once it listens or connects).
//
// Returns 0; -EADDRNOTAVAIL, -EADDRINUSE, -EINVAL if it is bound already or length is too short,
// -EAFNOSUPPORT, -ENOBUFS at a limit; -EFAULT if addr is NULL; -EBADF.
int ws_bind(ws_sock socket, const struct sockaddr *addr, socklen_t length);

// Listen for connections. At most backlog of them wait for ws_accept(); a negative number stands
// for the system's SOMAXCONN.
//
// Returns 0; -EADDRINUSE, -EINVAL if the socket is connected, -EOPNOTSUPP for datagrams, -ENOBUFS
// at a limit; -EBADF.
int ws_listen(ws_sock socket, int backlog);

// Take a connection from a listener; from a forwarder, a connection that ws_admit() has not
// answered yet. The peer's address is stored in addr, as accept(2) does, unless addr is NULL. The
// new socket blocks, whatever the listener does.
//
// Returns the new socket; -EAGAIN if none waits and the call must not; -EINVAL if the socket does
// not listen; -EFAULT if length is NULL and addr is not; -EBADF, also when another thread closes
// the listener.
ws_sock ws_accept(ws_sock socket, struct sockaddr *addr, socklen_t *length);

// Connect a stream socket; set the peer of a datagram socket, once. After an error close the
// socket and make another one.
//
// Returns 0; -EINPROGRESS if the call must not wait, or SO_SNDTIMEO is over: WS_OUT says when it
// is done, and SO_ERROR how; -EALREADY, -EISCONN; -ECONNREFUSED, -ETIMEDOUT, -ENETUNREACH,
// -EHOSTUNREACH, -EADDRINUSE, -EADDRNOTAVAIL, -ENOBUFS at a limit; -EINVAL, -EAFNOSUPPORT, -EFAULT
// for the address; -EBADF, also when another thread closes the socket.
int ws_connect(ws_sock socket, const struct sockaddr *addr, socklen_t length);

// End one direction of a connection, or both: how is SHUT_RD, SHUT_WR or SHUT_RDWR. Data that was
// sent before still goes out.
//
// Returns 0; -ENOTCONN, -EINVAL if how is none of them; -EBADF.
int ws_shutdown(ws_sock socket, int how);

// Close a socket. Data that was sent still goes out, unless SO_LINGER says otherwise; unread data
// makes it a reset. A connection of a forwarder that was not admitted is refused. Calls in other
// threads that wait for the socket return.
//
// Returns 0; -EBADF.
int ws_close(ws_sock socket);

// Store the local address of a socket as getsockname(2) does; of a connection from a forwarder,
// that is the destination that the peer asked for.
//
// Returns 0; -EFAULT if addr or length is NULL; -EBADF.
int ws_getsockname(ws_sock socket, struct sockaddr *addr, socklen_t *length);

// Store the peer's address of a socket as getpeername(2) does.
//
// Returns 0; -ENOTCONN; -EFAULT if addr or length is NULL; -EBADF.
int ws_getpeername(ws_sock socket, struct sockaddr *addr, socklen_t *length);

// Make a socket nonblocking (on is not 0), or blocking again. Calls on a nonblocking socket return
// -EAGAIN instead of waiting, and ws_connect() -EINPROGRESS.
//
// Returns 0; -EBADF.
int ws_set_nonblocking(ws_sock socket, int on);

// Send on a connected socket: bytes of a stream, or one datagram. A call that may wait returns
// when the stack has taken all bytes (or SO_SNDTIMEO is over); one that must not may take fewer.
// flags: MSG_DONTWAIT, MSG_NOSIGNAL (which changes nothing: there is no SIGPIPE).
//
// Returns how many bytes were taken; -EAGAIN if none, and the call must not wait; -EPIPE,
// -ECONNRESET, -ETIMEDOUT and others of the connection; -ENOTCONN, -EDESTADDRREQ; -EMSGSIZE;
// -EFAULT if data is NULL and length is not 0; -EINVAL if length is beyond the address space;
// -EOPNOTSUPP for other flags; -EBADF.
int64_t ws_send(ws_sock socket, const void *data, size_t length, int flags);

// Send one datagram to addr, or to the socket's peer if addr is NULL; on a stream socket as
// ws_send(). An unbound socket is bound to a free port first.
//
// Returns length; errors as ws_send(), and -ENETUNREACH, -EHOSTUNREACH, -EACCES for a broadcast
// without SO_BROADCAST, -ECONNREFUSED if the peer's host has answered that nobody is there;
// -EAFNOSUPPORT, -EINVAL for the address.
int64_t ws_sendto(ws_sock socket,
                  const void *data,
                  size_t length,
                  int flags,
                  const struct sockaddr *addr,
                  socklen_t addr_length);

// Receive bytes of a stream, or one datagram, whose rest is lost if the buffer is shorter. flags:
// MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL (of a stream: wait until the buffer is full).
//
// Returns how many bytes were stored; 0 at the end of a stream (or for an empty datagram); -EAGAIN
// if there is nothing and the call must not wait, or after SO_RCVTIMEO; -ECONNRESET, -ETIMEDOUT
// and others of the connection; -ENOTCONN; -EFAULT if buffer is NULL and length is not 0; -EINVAL
// if length is beyond the address space; -EOPNOTSUPP for other flags; -EBADF.
int64_t ws_recv(ws_sock socket, void *buffer, size_t length, int flags);

// As ws_recv(), and the sender's address is stored in addr, as recvfrom(2) does, unless addr is
// NULL.
//
// Returns as ws_recv(); -EFAULT also if addr_length is NULL and addr is not.
int64_t ws_recvfrom(ws_sock socket,
                    void *buffer,
                    size_t length,
                    int flags,
                    struct sockaddr *addr,
                    socklen_t *addr_length);

// Set an option, by the numbers of the system's headers. SOL_SOCKET: SO_REUSEADDR (on at first),
// SO_BROADCAST, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF and SO_SNDBUF (exact bytes, which turn tuning
// off), SO_RCVTIMEO, SO_SNDTIMEO (of connects too). IPPROTO_TCP: TCP_NODELAY, TCP_KEEPIDLE,
// TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT. IPPROTO_IP: IP_TTL, IP_TOS, IP_TRANSPARENT; the
// same of IPPROTO_IPV6. Accepted connections have their listener's.
//
// Returns 0; -ENOPROTOOPT for others; -EINVAL if the value or its length is wrong, -EDOM for a
// time; -EFAULT if value is NULL; -EBADF.
int ws_setsockopt(ws_sock socket, int level, int name, const void *value, socklen_t length);

// Store the value of an option in *value, which has room for *length bytes; *length becomes its
// length, that of an int. SOL_SOCKET: SO_ERROR (the error that no call has returned yet, positive;
// 0 afterwards), SO_TYPE, SO_DOMAIN, SO_ACCEPTCONN, SO_BROADCAST, SO_KEEPALIVE, SO_RCVBUF,
// SO_SNDBUF. IPPROTO_TCP: TCP_NODELAY. IPPROTO_IP: IP_TTL, IP_TOS.
//
// Returns 0; -ENOPROTOOPT for others; -ENOTCONN if only a connection has it; -EINVAL if *length is
// less than an int's; -EFAULT if value or length is NULL; -EBADF.
int ws_getsockopt(ws_sock socket, int level, int name, void *value, socklen_t *length);

// A descriptor of the system for epoll(7), poll(2) and event loops; it belongs to the stack, and
// nothing but waiting is done with it. It is readable while watched sockets (ws_watch()) may have
// news: call ws_events() then. That of a polled stack is also readable when the stack wants to be
// polled, because a frame came to one of its ports with a descriptor or a call needs it: call
// ws_stack_poll() then, and ws_events().
//
// Returns the descriptor; -EBADF.
int ws_stack_fd(ws_stack stack);

// Watch a socket: ws_events() reports it while it has what events asks for, WS_IN, WS_OUT or both;
// 0 ends the watch. user comes back with the news. A later call replaces an earlier one.
//
// Returns 0; -EINVAL if events has other bits, -EBADF.
int ws_watch(ws_sock socket, short events, void *user);

// Take the news of the stack's watched sockets, at most count, and store them in events. Does not
// wait. A socket is reported again while it has news (level-triggered).
//
// Returns how many were stored; -EFAULT if events is NULL and count is not 0; -EINVAL if count is
// beyond the address space; -EBADF.
int64_t ws_events(ws_stack stack, ws_event *events, size_t count);

// Wait until one of count sockets has what its events ask for, for at most timeout_ms
// milliseconds; 0 does not wait, a negative time waits without end. The sockets may be of several
// stacks. Sockets of a stack without a thread are looked at, and not waited for.
//
// Returns how many entries have revents that are not 0; 0 after the time; -EFAULT if sockets is
// NULL and count is not 0; -EINVAL if count is beyond 1,048,576.
int ws_poll(ws_pollfd *sockets, size_t count, int timeout_ms);

// Take every connection that no listener of the stack takes, to any address and port: a proxy's
// ingress. The packets have to reach the stack: their senders have a route to it, and the stack
// one back. ws_accept() takes a connection before it is answered; ws_getsockname() of that socket
// is the destination that the peer asked for. Then ws_admit() answers it, or ws_close() refuses
// it. At most half_open_max handshakes are under way at once. A stack has one forwarder at most.
//
// Returns the forwarder, a socket to accept from; -EADDRINUSE if the stack has one, -ENOBUFS at a
// limit; -EBADF.
ws_sock ws_forwarder(ws_stack stack, uint32_t half_open_max);

// Answer a connection that ws_accept() took from a forwarder, and wait until it is open, if the
// call may wait. From then on the socket is an ordinary stream.
//
// Returns 0; -EINPROGRESS as ws_connect(); -ENOBUFS at a limit, -ECONNRESET and others if the peer
// gave up; -EINVAL if the socket is not such a connection; -EBADF.
int ws_admit(ws_sock socket);

// Look up the addresses of host, which is a name or an address as text. At most count of them are
// stored in addresses, IPv6 first, each with the given port: a sockaddr_in6 or sockaddr_in. Names
// need servers: ws_set_resolver().
//
// In a stack that has no thread the call does not wait: it returns -EAGAIN while the lookup is
// under way, and the program calls it again after ws_stack_poll().
//
// Returns how many were stored; -ENOENT if the name does not exist or has no address, -ETIMEDOUT,
// -EINVAL if host is not a name; -EIO if there are no servers, or they fail; -EFAULT if host is
// NULL, or addresses is and count is not 0; -EBADF.
int ws_resolve(ws_stack stack,
               const char *host,
               uint16_t port,
               struct sockaddr_storage *addresses,
               size_t count);

// Set the name servers to ask, in the text of resolv.conf(5), and names that need no server, in
// the text of hosts(5); either may be NULL. Answers that were remembered are forgotten. Lines that
// are not understood are skipped, and the log says which.
//
// Returns 0; -EINVAL if a text is not UTF-8; -EBADF.
int ws_set_resolver(ws_stack stack, const char *resolv_conf, const char *hosts);

// Start a gateway: it gives virtual machines addresses, resolves names for them, and carries their
// connections over the sockets of this process, as far as the policy allows. It takes packets when
// this returns. It runs in a thread of the library, and in a second one while it follows the
// host's name servers; both block all signals. There is no jail: the gateway has the privileges of
// the process. Several gateways may run.
//
// The library makes copies of the descriptors, and makes them nonblocking; yours may be closed. If
// you keep one, the machine does not see the end of the gateway, and you can start another one.
//
// Returns the gateway; -EFAULT if config, or vms with a vm_count above 0, is NULL; -E2BIG; -EINVAL
// if a value is not understood (of the policy: ws_last_error() names the line), or a machine's
// socket is not of the kind, -ENOTSOCK if it is no socket; -EBADF if a descriptor is none, -EMFILE
// if none is left; of published ports -EADDRINUSE, -EADDRNOTAVAIL, and -EACCES below 1024 without
// privilege; the system's number if it refuses something else, as -EAGAIN for a thread.
ws_gateway ws_gateway_start(const ws_gateway_config *config);

// Copy the addresses of a gateway's networks to buffer, with a zero byte behind them, cut to size
// bytes. Each network is one line, for example "link 0 network 10.0.2.0/24 gateway 10.0.2.2
// resolver 10.0.2.3 machine 10.0.2.100", where the last one is what its first machine gets. A link
// is the index of its machine in vms, or 0 for all with WS_SWITCHED.
//
// Returns the length of the whole text in bytes, without the zero byte; -EFAULT if buffer is NULL
// and size is not 0; -EINVAL if size is beyond the address space; -EBADF.
int64_t ws_gateway_networks(ws_gateway gateway, char *buffer, size_t size);

// Has a gateway ended by itself? ws_gateway_stop() says why.
//
// Returns 1 or 0; -EBADF.
int ws_gateway_has_ended(ws_gateway gateway);

// Stop a gateway. When this returns, its connections and its copies of descriptors are closed, and
// its callbacks are not called any more: it waits for one that runs. The handle is stale then,
// also after an error.
//
// Returns 0; -EIO if the gateway had ended by itself, ws_last_error() says why; -EDEADLK in a
// callback, where the gateway runs on; -EBADF.
int ws_gateway_stop(ws_gateway gateway);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIRESPEED_H */
