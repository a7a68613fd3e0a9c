// Every call with null pointers, stale handles, handles of the other kind, and lengths of 0 and
// SIZE_MAX: an error number each time.

#include "check.h"

#include <limits.h>
#include <sys/time.h>

static void stacks(void) {
    uint64_t deadline;
    ws_config config;
    memset(&config, 0, sizeof config);
    EQUAL(ws_stack_new(&config), -EINVAL); // its size is 0
    config.size = SIZE_MAX;
    EQUAL(ws_stack_new(&config), -EINVAL);
    config.size = sizeof config;
    config.flags = 0x80;
    EQUAL(ws_stack_new(&config), -EINVAL);
    config.flags = 0;
    config.limit_count = 1;
    EQUAL(ws_stack_new(&config), -EFAULT);
    ws_limit limit = {NULL, 1};
    config.limits = &limit;
    EQUAL(ws_stack_new(&config), -EFAULT);
    limit.name = "no_such_limit";
    EQUAL(ws_stack_new(&config), -ENOENT);
    limit.name = "\xff";
    EQUAL(ws_stack_new(&config), -EINVAL);

    // A program of an older header has a shorter structure, one of a newer header a longer one.
    struct {
        ws_config known;
        long more;
    } newer = {config, 0};
    newer.known.limit_count = 0;
    newer.known.size = sizeof newer;
    ws_stack stack = OF(ws_stack_new(&newer.known));
    EQUAL(ws_stack_free(stack), 0);
    newer.more = 1;
    EQUAL(ws_stack_new(&newer.known), -E2BIG);
    newer.known.size = offsetof(ws_config, limits);
    EQUAL(ws_stack_free(OF(ws_stack_new(&newer.known))), 0);

    const ws_stack bad[] = {stack, 0, -1, INT64_MAX, INT64_MIN, 12345};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EQUAL(ws_stack_free(bad[i]), -EBADF);
        EQUAL(ws_stack_start(bad[i]), -EBADF);
        EQUAL(ws_stack_poll(bad[i], 1), -EBADF);
        EQUAL(ws_next_deadline(bad[i], &deadline), -EBADF);
        EQUAL(ws_stack_fd(bad[i]), -EBADF);
        EQUAL(ws_events(bad[i], NULL, 0), -EBADF);
        EQUAL(ws_socket(bad[i], AF_INET, SOCK_STREAM, 0), -EBADF);
        EQUAL(ws_forwarder(bad[i], 1), -EBADF);
        EQUAL(ws_port_tun(bad[i], NULL, NULL), -EBADF);
        EQUAL(ws_port_tap(bad[i], NULL, NULL), -EBADF);
        EQUAL(ws_port_descriptor(bad[i], 0, WS_FD_PACKETS, 0), -EBADF);
        EQUAL(ws_port_device(bad[i], NULL), -EBADF);
        EQUAL(ws_port_remove(bad[i], 0), -EBADF);
        EQUAL(ws_port_wake(bad[i], 0), -EBADF);
        EQUAL(ws_pair(bad[i], bad[i], NULL, NULL), -EBADF);
        EQUAL(ws_address_add(bad[i], 0, "192.0.2.1/24"), -EBADF);
        EQUAL(ws_address_remove(bad[i], 0, "192.0.2.1"), -EBADF);
        EQUAL(ws_route_add(bad[i], "0.0.0.0/0", NULL, 0), -EBADF);
        EQUAL(ws_route_remove(bad[i], "0.0.0.0/0", 0), -EBADF);
        EQUAL(ws_neighbour_add(bad[i], 0, "192.0.2.1", "02:00:00:00:00:01"), -EBADF);
        EQUAL(ws_counter(bad[i], "x", &deadline), -EBADF);
        EQUAL(ws_limit_of(bad[i], "connections", NULL, NULL), -EBADF);
        EQUAL(ws_resolve(bad[i], "localhost", 0, NULL, 0), -EBADF);
        EQUAL(ws_set_resolver(bad[i], NULL, NULL), -EBADF);
    }
}

static void ports(ws_stack stack) {
    ws_device device;
    memset(&device, 0, sizeof device);
    EQUAL(ws_port_device(stack, NULL), -EFAULT);
    EQUAL(ws_port_device(stack, &device), -EINVAL);
    device.size = sizeof device;
    EQUAL(ws_port_device(stack, &device), -EFAULT); // no functions
    EQUAL(ws_port_descriptor(stack, -1, WS_FD_PACKETS, 0), -EBADF);
    EQUAL(ws_port_descriptor(stack, INT_MAX, WS_FD_PACKETS, 0), -EBADF);
    EQUAL(ws_port_descriptor(stack, 0, 99, 0), -EINVAL);
    EQUAL(ws_port_descriptor(stack, 0, WS_FD_PACKETS, 1), -EINVAL);
    EQUAL(ws_port_descriptor(stack, 0, WS_FD_PACKETS, UINT32_MAX), -EINVAL);
    TRUE(ws_port_tun(stack, "a name of more than fifteen bytes", NULL) < 0);
    EQUAL(ws_port_tun(stack, "tun9", "no address"), -EINVAL);
    const int bad[] = {-1, 7, 65535, 65536, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EQUAL(ws_port_remove(stack, bad[i]), -ENODEV);
        EQUAL(ws_port_wake(stack, bad[i]), -ENODEV);
        EQUAL(ws_address_add(stack, bad[i], "192.0.2.1/24"), -ENODEV);
        EQUAL(ws_route_add(stack, "0.0.0.0/0", NULL, bad[i]), -ENODEV);
    }
    EQUAL(ws_address_add(stack, 0, NULL), -EFAULT);
    EQUAL(ws_address_add(stack, 0, "192.0.2.1/33"), -EINVAL);
    EQUAL(ws_address_add(stack, 0, "224.0.0.1/24"), -EINVAL);
    EQUAL(ws_address_remove(stack, 0, NULL), -EFAULT);
    EQUAL(ws_address_remove(stack, 0, "192.0.2.99"), -EADDRNOTAVAIL);
    EQUAL(ws_route_add(stack, NULL, NULL, 0), -EFAULT);
    EQUAL(ws_route_add(stack, "everywhere", NULL, 0), -EINVAL);
    EQUAL(ws_route_add(stack, "0.0.0.0/0", "gateway", 0), -EINVAL);
    EQUAL(ws_route_remove(stack, NULL, 0), -EFAULT);
    EQUAL(ws_neighbour_add(stack, 0, NULL, NULL), -EFAULT);
    EQUAL(ws_neighbour_add(stack, 0, "192.0.2.9", NULL), -EFAULT);
    EQUAL(ws_neighbour_add(stack, 0, "192.0.2.9", "nothing"), -EINVAL);
    EQUAL(ws_counter(stack, NULL, NULL), -EFAULT);
    EQUAL(ws_counter(stack, "no_such_counter", NULL), -ENOENT);
    EQUAL(ws_counter(stack, "tcp_retransmits", NULL), -EFAULT);
    uint64_t counted = 99;
    EQUAL(ws_counter(stack, "tcp_retransmits", &counted), 0);
    EQUAL(ws_counter(stack, "ip_no_route", &counted), 0);
    EQUAL(counted, 0);
    EQUAL(ws_limit_of(stack, NULL, NULL, NULL), -EFAULT);
    EQUAL(ws_limit_of(stack, "connections", NULL, NULL), 0);
    EQUAL(ws_resolve(stack, NULL, 0, NULL, 0), -EFAULT);
    EQUAL(ws_resolve(stack, "192.0.2.7", 0, NULL, 1), -EFAULT);
    EQUAL(ws_resolve(stack, "192.0.2.7", 0, NULL, SIZE_MAX), -EINVAL);
    EQUAL(ws_resolve(stack, "192.0.2.7", 0, NULL, 0), 0);
    EQUAL(ws_resolve(stack, "not a name", 0, NULL, 0), -EINVAL);
    EQUAL(ws_set_resolver(stack, "\xff", NULL), -EINVAL);
    EQUAL(ws_stack_poll(stack, 1), -EINVAL); // it has a thread
    uint64_t deadline;
    EQUAL(ws_next_deadline(stack, &deadline), -EINVAL);
    EQUAL(ws_stack_start(stack), -EALREADY);
    EQUAL(ws_events(stack, NULL, 1), -EFAULT);
    EQUAL(ws_events(stack, NULL, SIZE_MAX), -EINVAL);
    EQUAL(ws_events(stack, NULL, 0), 0);
}

#ifndef WITHOUT_GATEWAY
static void gateways(ws_stack stack) {
    const ws_gateway bad[] = {0, -1, INT64_MAX, INT64_MIN, 12345};
    char text[200];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EQUAL(ws_gateway_stop(bad[i]), -EBADF);
        EQUAL(ws_gateway_has_ended(bad[i]), -EBADF);
        EQUAL(ws_gateway_networks(bad[i], text, sizeof text), -EBADF);
    }
    EQUAL(ws_gateway_stop(stack), -EINVAL); // a stack's
    EQUAL(ws_gateway_has_ended(stack), -EINVAL);
    EQUAL(ws_gateway_networks(stack, text, sizeof text), -EINVAL);

    int ends[2];
    EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    struct {
        ws_gateway_config known;
        long more;
    } newer;
    memset(&newer, 0, sizeof newer);
    ws_gateway_config *config = &newer.known;
    EQUAL(ws_gateway_start(NULL), -EFAULT);
    EQUAL(ws_gateway_start(config), -EINVAL); // its size is 0
    config->size = SIZE_MAX;
    EQUAL(ws_gateway_start(config), -EINVAL);
    config->size = sizeof newer;
    newer.more = 1;
    EQUAL(ws_gateway_start(config), -E2BIG);
    newer.more = 0;
    EQUAL(ws_gateway_start(config), -EINVAL); // no machine
    config->vm_count = 1;
    EQUAL(ws_gateway_start(config), -EFAULT);
    config->vm_count = SIZE_MAX;
    EQUAL(ws_gateway_start(config), -EINVAL);
    ws_vm vm = {-1, WS_FD_VM_DGRAM};
    config->vms = &vm;
    EQUAL(ws_gateway_start(config), -EINVAL); // SIZE_MAX still
    config->vm_count = 1;
    EQUAL(ws_gateway_start(config), -EBADF);
    vm.fd = INT_MAX;
    EQUAL(ws_gateway_start(config), -EBADF);
    vm.fd = ends[0];
    const int kinds[] = {WS_FD_PACKETS, -1, 99, INT_MIN};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        vm.kind = kinds[i];
        EQUAL(ws_gateway_start(config), -EINVAL);
    }
    vm.kind = WS_FD_VM_STREAM;
    EQUAL(ws_gateway_start(config), -EINVAL); // the socket is not of that kind
    vm.kind = WS_FD_VM_VHOST;
    EQUAL(ws_gateway_start(config), -EINVAL);
    int pipes[2];
    EQUAL(pipe(pipes), 0);
    vm = (ws_vm){pipes[0], WS_FD_VM_STREAM};
    EQUAL(ws_gateway_start(config), -ENOTSOCK);
    close(pipes[0]);
    close(pipes[1]);
    int streams[2];
    EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, streams), 0);
    vm = (ws_vm){streams[0], WS_FD_VM_DGRAM};
    EQUAL(ws_gateway_start(config), -EINVAL);
    vm.kind = WS_FD_VM_TAP;
    EQUAL(ws_gateway_start(config), -EINVAL);
    vm.kind = WS_FD_VM_VHOST;
    EQUAL(ws_gateway_start(config), -EINVAL); // it does not listen
    close(streams[0]);
    close(streams[1]);
    vm = (ws_vm){ends[0], WS_FD_VM_DGRAM};
    const char *policies[] = {"\xff", "[[rule]]\nallow = ['?\?\?']\n", "no policy"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        config->policy = policies[i];
        EQUAL(ws_gateway_start(config), -EINVAL);
    }
    config->policy = policies[1];
    EQUAL(ws_gateway_start(config), -EINVAL);
    TRUE(ws_last_error(text, sizeof text) > 0 && strstr(text, "policy:2") != NULL);
    config->policy = NULL;
    const char *networks[] = {"\xff", "", "everywhere", "10.0.0.0/31", "fd00::/64"};
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        config->net4 = networks[i];
        EQUAL(ws_gateway_start(config), -EINVAL);
    }
    config->net4 = NULL;
    config->net6 = "10.0.0.0/8";
    EQUAL(ws_gateway_start(config), -EINVAL);
    config->net4 = config->net6 = "off";
    EQUAL(ws_gateway_start(config), -EINVAL); // no network is left
    config->net4 = NULL;
    config->dns = "nobody";
    EQUAL(ws_gateway_start(config), -EINVAL);
    config->dns = "off";
    const uint32_t mtus[] = {1, 575, 65521, 65535, 65536, UINT32_MAX};
    for (size_t i = 0; i < sizeof mtus / sizeof mtus[0]; i++) {
        config->mtu = mtus[i];
        EQUAL(ws_gateway_start(config), -EINVAL);
    }
    config->mtu = 576;
    config->flags = 0x80;
    EQUAL(ws_gateway_start(config), -EINVAL);
    config->flags = WS_SWITCHED;

    // A published port that another program has, and one at an address that is not the host's.
    struct sockaddr_in taken = at("127.0.0.1", 0);
    socklen_t length = sizeof taken;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    EQUAL(bind(listener, ADDRESS(taken)) | listen(listener, 1), 0);
    EQUAL(getsockname(listener, (struct sockaddr *)&taken, &length), 0);
    snprintf(text, sizeof text, "[[publish]]\nport = '127.0.0.1/%d:80'\n", ntohs(taken.sin_port));
    config->policy = text;
    EQUAL(ws_gateway_start(config), -EADDRINUSE);
    close(listener);
    config->policy = "[[publish]]\nport = '192.0.2.1/8080:80'\n";
    EQUAL(ws_gateway_start(config), -EADDRNOTAVAIL);
    config->policy = NULL;

    ws_gateway gateway = OF(ws_gateway_start(config));
    EQUAL(ws_gateway_networks(gateway, NULL, 1), -EFAULT);
    EQUAL(ws_gateway_networks(gateway, text, SIZE_MAX), -EINVAL);
    TRUE(ws_gateway_networks(gateway, NULL, 0) > 40);
    EQUAL(ws_stack_free(gateway), -EINVAL);
    EQUAL(ws_close(gateway), -ENOTSOCK);
    EQUAL(ws_gateway_stop(gateway), 0);
    EQUAL(ws_gateway_stop(gateway), -EBADF);
    close(ends[0]);
    close(ends[1]);
}
#endif

static void handles(ws_sock bad, int wanted) {
    struct sockaddr_in address = at("192.0.2.2", 7);
    socklen_t length = sizeof address;
    char bytes[4] = "abc";
    int one = 1;
    EQUAL(ws_bind(bad, ADDRESS(address)), wanted);
    EQUAL(ws_listen(bad, 1), wanted);
    EQUAL(ws_accept(bad, NULL, NULL), wanted);
    EQUAL(ws_connect(bad, ADDRESS(address)), wanted);
    EQUAL(ws_send(bad, bytes, 3, 0), wanted);
    EQUAL(ws_sendto(bad, bytes, 3, 0, ADDRESS(address)), wanted);
    EQUAL(ws_recv(bad, bytes, 3, 0), wanted);
    EQUAL(ws_recvfrom(bad, bytes, 3, 0, (struct sockaddr *)&address, &length), wanted);
    EQUAL(ws_shutdown(bad, SHUT_RDWR), wanted);
    EQUAL(ws_getsockname(bad, (struct sockaddr *)&address, &length), wanted);
    EQUAL(ws_getpeername(bad, (struct sockaddr *)&address, &length), wanted);
    EQUAL(ws_setsockopt(bad, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), wanted);
    EQUAL(ws_getsockopt(bad, SOL_SOCKET, SO_TYPE, &one, &length), wanted);
    EQUAL(ws_set_nonblocking(bad, 1), wanted);
    EQUAL(ws_watch(bad, WS_IN, NULL), wanted);
    EQUAL(ws_admit(bad), wanted);
    EQUAL(ws_close(bad), wanted);
}

// Calls with a good socket and bad memory.
static void memory(ws_sock socket) {
    struct sockaddr_in address = at("192.0.2.2", 7);
    socklen_t length = sizeof address;
    char bytes[4] = "abc";
    EQUAL(ws_bind(socket, NULL, 16), -EFAULT);
    EQUAL(ws_bind(socket, (struct sockaddr *)&address, 0), -EINVAL);
    EQUAL(ws_bind(socket, (struct sockaddr *)&address, 15), -EINVAL);
    EQUAL(ws_connect(socket, NULL, UINT32_MAX), -EFAULT);
    EQUAL(ws_connect(socket, (struct sockaddr *)&address, 1), -EINVAL);
    address.sin_family = AF_UNIX;
    EQUAL(ws_connect(socket, ADDRESS(address)), -EAFNOSUPPORT);
    EQUAL(ws_send(socket, NULL, 1, 0), -EFAULT);
    EQUAL(ws_send(socket, NULL, SIZE_MAX, 0), -EINVAL);
    EQUAL(ws_send(socket, bytes, SIZE_MAX, 0), -EINVAL);
    EQUAL(ws_send(socket, bytes, 3, 0x4000000), -EOPNOTSUPP);
    TRUE(ws_send(socket, NULL, 0, 0) < 0); // it is not connected
    EQUAL(ws_sendto(socket, NULL, 1, 0, NULL, 0), -EFAULT);
    EQUAL(ws_sendto(socket, bytes, SIZE_MAX, 0, NULL, 0), -EINVAL);
    TRUE(ws_sendto(socket, bytes, 1, 0, (struct sockaddr *)&address, 1) < 0);
    EQUAL(ws_recv(socket, NULL, 1, 0), -EFAULT);
    EQUAL(ws_recv(socket, bytes, SIZE_MAX, 0), -EINVAL);
    EQUAL(ws_recv(socket, bytes, 3, 0x4000000), -EOPNOTSUPP);
    EQUAL(ws_recvfrom(socket, NULL, 1, 0, NULL, NULL), -EFAULT);
    EQUAL(ws_recvfrom(socket, bytes, SIZE_MAX, 0, NULL, NULL), -EINVAL);
    TRUE(ws_recv(socket, NULL, 0, MSG_DONTWAIT) < 0);
    EQUAL(ws_recvfrom(socket, bytes, 3, 0, (struct sockaddr *)&address, NULL), -EFAULT);
    EQUAL(ws_accept(socket, (struct sockaddr *)&address, NULL), -EFAULT);
    EQUAL(ws_getsockname(socket, NULL, &length), -EFAULT);
    EQUAL(ws_getsockname(socket, (struct sockaddr *)&address, NULL), -EFAULT);
    EQUAL(ws_getpeername(socket, NULL, &length), -ENOTCONN);
    EQUAL(ws_setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, NULL, 4), -EFAULT);
    struct timeval times[] = {{LONG_MAX, 999999}, {-1, 0}, {0, -1}, {0, 1000000}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        EQUAL(ws_setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &times[i], sizeof times[i]),
              i == 0 ? 0 : -EDOM);
    EQUAL(ws_setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, bytes, 0), -EINVAL);
    EQUAL(ws_setsockopt(socket, SOL_SOCKET, 9999, bytes, 4), -ENOPROTOOPT);
    EQUAL(ws_setsockopt(socket, 9999, 1, bytes, UINT32_MAX), -ENOPROTOOPT);
    EQUAL(ws_getsockopt(socket, SOL_SOCKET, SO_TYPE, NULL, &length), -EFAULT);
    EQUAL(ws_getsockopt(socket, SOL_SOCKET, SO_TYPE, bytes, NULL), -EFAULT);
    length = 3;
    EQUAL(ws_getsockopt(socket, SOL_SOCKET, SO_TYPE, bytes, &length), -EINVAL);
    EQUAL(ws_shutdown(socket, 99), -EINVAL);
    EQUAL(ws_watch(socket, 0x100, NULL), -EINVAL);
    EQUAL(ws_admit(socket), -EINVAL);
}

static void polls(ws_sock stale) {
    ws_pollfd asked[2] = {{stale, WS_IN, 99}, {-1, WS_IN, 99}};
    EQUAL(ws_poll(NULL, 1, 0), -EFAULT);
    EQUAL(ws_poll(NULL, SIZE_MAX, 0), -EINVAL);
    EQUAL(ws_poll(asked, SIZE_MAX, 0), -EINVAL);
    EQUAL(ws_poll(NULL, 0, 0), 0);
    EQUAL(ws_poll(asked, 2, -1), 1);
    EQUAL(asked[0].revents, WS_STALE);
    EQUAL(asked[1].revents, 0);
}

int main(void) {
    char text[8];
    EQUAL(ws_last_error(NULL, 0), 0);
    EQUAL(ws_last_error(NULL, 1), -EFAULT);
    EQUAL(ws_last_error(text, SIZE_MAX), -EINVAL);
    TRUE(ws_strerror(-EBADF, text, sizeof text) > 7);
    EQUAL(strlen(text), 7);
    EQUAL(ws_strerror(INT_MIN, NULL, SIZE_MAX), -EINVAL);
    EQUAL(ws_strerror(1, NULL, 1), -EFAULT);
    TRUE(strlen(ws_version()) > 4);

    stacks();
    ws_stack both[2];
    pair(both);
    ports(both[0]);
#ifndef WITHOUT_GATEWAY
    gateways(both[0]);
#endif
    EQUAL(ws_socket(both[0], AF_UNIX, SOCK_STREAM, 0), -EAFNOSUPPORT);
    EQUAL(ws_socket(both[0], AF_INET, SOCK_RAW, 0), -EPROTONOSUPPORT);
    EQUAL(ws_socket(both[0], AF_INET, SOCK_STREAM, IPPROTO_UDP), -EPROTONOSUPPORT);
    memory(OF(ws_socket(both[0], AF_INET, SOCK_STREAM, 0)));
    memory(OF(ws_socket(both[0], AF_INET, SOCK_DGRAM, 0)));

    ws_sock closed = OF(ws_socket(both[0], AF_INET, SOCK_STREAM, 0));
    EQUAL(ws_close(closed), 0);
    ws_sock next = OF(ws_socket(both[0], AF_INET, SOCK_STREAM, 0));
    TRUE(next != closed);
    handles(closed, -EBADF);
    handles(0, -EBADF);
    handles(-1, -EBADF);
    handles(INT64_MAX, -EBADF);
    handles(both[0], -ENOTSOCK);
    EQUAL(ws_stack_free(next), -EINVAL); // a socket's
    polls(closed);

    EQUAL(ws_stack_free(both[0]), 0);
    handles(next, -EBADF); // it went with its stack
    EQUAL(ws_stack_free(both[1]), 0);
    printf("ok\n");
    return 0;
}
