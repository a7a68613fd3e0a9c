// An echo server with epoll: the host at the other end of a TUN interface.
//
//     sudo ./echo ws0 10.9.0.1/24 10.9.0.2/24 7
//     nc 10.9.0.2 7
//
// The kernel's end of the interface ws0 has 10.9.0.1, and this program is 10.9.0.2. Each connection
// has a buffer. A connection that does not read its echo is not read from either.

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <wirespeed.h>

struct connection {
    ws_sock socket;
    size_t begin, end; // what was read and not written yet
    char bytes[65536];
};

static void die(const char *what) {
    char why[512];
    ws_last_error(why, sizeof why);
    fprintf(stderr, "echo: %s: %s\n", what, why);
    exit(1);
}

static void end(struct connection *c) {
    ws_close(c->socket);
    free(c);
}

// Move bytes until the socket has none, or no room for them. Returns 0 when the connection is over.
static int echo(struct connection *c) {
    for (;;) {
        while (c->begin < c->end) {
            int64_t sent = ws_send(c->socket, c->bytes + c->begin, c->end - c->begin, 0);
            if (sent == -EAGAIN) {
                ws_watch(c->socket, WS_OUT, c);
                return 1;
            }
            if (sent < 0)
                return 0;
            c->begin += (size_t)sent;
        }
        c->begin = c->end = 0;
        int64_t received = ws_recv(c->socket, c->bytes, sizeof c->bytes, 0);
        if (received == -EAGAIN) {
            ws_watch(c->socket, WS_IN, c);
            return 1;
        }
        if (received <= 0)
            return 0;
        c->end = (size_t)received;
    }
}

static void take(ws_sock listener) {
    for (;;) {
        ws_sock accepted = ws_accept(listener, NULL, NULL);
        if (accepted < 0)
            return; // -EAGAIN: none waits any more
        struct connection *c = calloc(1, sizeof *c);
        if (c == NULL) {
            ws_close(accepted);
            return;
        }
        c->socket = accepted;
        ws_set_nonblocking(accepted, 1);
        ws_watch(accepted, WS_IN, c);
    }
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: echo INTERFACE KERNEL/LENGTH OURS/LENGTH PORT\n");
        return 2;
    }
    ws_stack stack = ws_stack_new(NULL);
    if (stack < 0)
        die("no stack");
    int port = ws_port_tun(stack, argv[1], argv[2]);
    if (port < 0)
        die(argv[1]);
    if (ws_address_add(stack, port, argv[3]) < 0)
        die(argv[3]);
    if (ws_stack_start(stack) < 0)
        die("no thread");

    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[4]))};
    ws_sock listener = ws_socket(stack, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int on = 1; // for the connections too: one whose peer has vanished ends
    ws_setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (listener < 0 || ws_bind(listener, (struct sockaddr *)&at, sizeof at) < 0 ||
        ws_listen(listener, 128) < 0 || ws_watch(listener, WS_IN, NULL) < 0)
        die("cannot listen");
    printf("listening\n");
    fflush(stdout);

    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event asked = {.events = EPOLLIN};
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, ws_stack_fd(stack), &asked) < 0) {
        perror("echo: epoll");
        return 1;
    }
    for (;;) {
        // Other descriptors of the program could be in the same loop.
        struct epoll_event ready[8];
        if (epoll_wait(loop, ready, 8, -1) < 0 && errno != EINTR) {
            perror("echo: epoll_wait");
            return 1;
        }
        ws_event news[64];
        int64_t count = ws_events(stack, news, 64);
        for (int64_t i = 0; i < count; i++) {
            if (news[i].user == NULL)
                take(listener);
            else if (!echo(news[i].user))
                end(news[i].user);
        }
    }
}
