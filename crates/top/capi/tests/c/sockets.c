// Streams, datagrams, ws_poll(), the queue of events, the forwarder, and calls from two threads.

#include "check.h"

#include <poll.h>
#include <signal.h>

enum { MEGABYTES = 8 };

static void *send_much(void *argument) {
    ws_sock socket = *(ws_sock *)argument;
    static char bytes[1 << 20];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    for (int i = 0; i < MEGABYTES; i++)
        EQUAL(ws_send(socket, bytes, sizeof bytes, 0), sizeof bytes);
    EQUAL(ws_shutdown(socket, SHUT_WR), 0);
    return NULL;
}

static void streams(ws_stack a, ws_stack b) {
    ws_sock listener = listening(b, "192.0.2.2", 80);
    struct sockaddr_in to = at("192.0.2.2", 80), from;
    socklen_t length = sizeof from;
    ws_sock client = OF(ws_socket(a, AF_INET, SOCK_STREAM, 0));
    EQUAL(ws_connect(client, ADDRESS(to)), 0);
    EQUAL(ws_connect(client, ADDRESS(to)), -EISCONN);
    ws_sock server = OF(ws_accept(listener, (struct sockaddr *)&from, &length));
    EQUAL(ntohl(from.sin_addr.s_addr), 0xc0000201);

    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, send_much, &client), 0);
    static char bytes[100000];
    size_t total = 0;
    for (;;) {
        int64_t got = OF(ws_recv(server, bytes, sizeof bytes, 0));
        if (got == 0)
            break;
        for (int64_t i = 0; i < got; i++)
            if (bytes[i] != (char)((total + (size_t)i) % (1 << 20) * 7))
                EQUAL(i, -1);
        total += (size_t)got;
    }
    EQUAL(total, MEGABYTES << 20);
    pthread_join(thread, NULL);

    EQUAL(ws_send(server, "answer", 6, 0), 6);
    EQUAL(ws_recv(client, bytes, 3, MSG_PEEK), 3);
    EQUAL(ws_recv(client, bytes, 6, MSG_WAITALL), 6);
    TRUE(memcmp(bytes, "answer", 6) == 0);
    EQUAL(ws_recv(client, bytes, 6, MSG_DONTWAIT), -EAGAIN);
    EQUAL(ws_close(server), 0);
    EQUAL(ws_recv(client, bytes, 6, 0), 0);
    EQUAL(ws_close(client), 0);
    EQUAL(ws_close(listener), 0);

    client = OF(ws_socket(a, AF_INET, SOCK_STREAM, 0));
    EQUAL(ws_connect(client, ADDRESS(to)), -ECONNREFUSED);
    EQUAL(ws_close(client), 0);
}

static void options(ws_stack a) {
    ws_sock socket = OF(ws_socket(a, AF_INET, SOCK_STREAM, 0));
    int value = 1;
    socklen_t length = sizeof value;
    struct timeval soon = {0, 20000};
    EQUAL(ws_setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &value, length), 0);
    EQUAL(ws_setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon), 0);
    EQUAL(ws_setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &value, length), 0);
    value = 77;
    EQUAL(ws_setsockopt(socket, IPPROTO_IP, IP_TTL, &value, length), 0);
    value = 0;
    EQUAL(ws_getsockopt(socket, IPPROTO_IP, IP_TTL, &value, &length), 0);
    EQUAL(value, 77);
    EQUAL(ws_getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &value, &length), 0);
    EQUAL(value, 1);
    EQUAL(ws_getsockopt(socket, SOL_SOCKET, SO_TYPE, &value, &length), 0);
    EQUAL(value, SOCK_STREAM);
    EQUAL(ws_close(socket), 0);
}

// An accepted connection has its listener's options, the time of a receive too.
static void inherited(ws_stack a, ws_stack b) {
    ws_sock listener = listening(b, "192.0.2.2", 83);
    int value = 77;
    socklen_t length = sizeof value;
    struct timeval soon = {0, 20000};
    EQUAL(ws_setsockopt(listener, IPPROTO_IP, IP_TTL, &value, length), 0);
    EQUAL(ws_setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &value, length), 0);
    EQUAL(ws_setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon), 0);
    ws_sock client = OF(ws_socket(a, AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in to = at("192.0.2.2", 83);
    EQUAL(ws_connect(client, ADDRESS(to)), 0);
    ws_pollfd asked = {listener, WS_IN, 0};
    EQUAL(ws_poll(&asked, 1, 10000), 1);
    ws_sock server = OF(ws_accept(listener, NULL, NULL));
    EQUAL(ws_getsockopt(server, IPPROTO_IP, IP_TTL, &value, &length), 0);
    EQUAL(value, 77);
    EQUAL(ws_getsockopt(server, SOL_SOCKET, SO_KEEPALIVE, &value, &length), 0);
    EQUAL(value, 1);
    EQUAL(ws_recv(server, &value, 1, 0), -EAGAIN);
    EQUAL(ws_close(server), 0);
    EQUAL(ws_close(client), 0);
    EQUAL(ws_close(listener), 0);
}

static void datagrams(ws_stack a, ws_stack b) {
    ws_sock here = OF(ws_socket(a, AF_INET, SOCK_DGRAM, 0));
    ws_sock there = OF(ws_socket(b, AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in to = at("192.0.2.2", 53), from;
    socklen_t length = sizeof from;
    char bytes[64];
    EQUAL(ws_bind(there, ADDRESS(to)), 0);
    EQUAL(ws_bind(there, ADDRESS(to)), -EINVAL);
    EQUAL(ws_send(here, "x", 1, 0), -EDESTADDRREQ);
    EQUAL(ws_sendto(here, "question", 8, 0, ADDRESS(to)), 8);
    EQUAL(ws_recvfrom(there, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length), 8);
    EQUAL(ws_sendto(there, NULL, 0, 0, ADDRESS(from)), 0);
    EQUAL(ws_recv(here, bytes, sizeof bytes, 0), 0);
    EQUAL(ws_connect(here, ADDRESS(to)), 0);
    EQUAL(ws_send(here, "again", 5, 0), 5);
    EQUAL(ws_recv(there, bytes, 2, 0), 2); // the rest is lost
    EQUAL(ws_recv(there, bytes, 2, MSG_DONTWAIT), -EAGAIN);
    struct timeval soon = {0, 1000};
    EQUAL(ws_setsockopt(there, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon), 0);
    EQUAL(ws_recv(there, bytes, 2, 0), -EAGAIN);
    static char large[70000];
    EQUAL(ws_sendto(here, large, sizeof large, 0, NULL, 0), -EMSGSIZE);
    EQUAL(ws_close(here), 0);
    EQUAL(ws_close(there), 0);
}

// One thread serves a listener and its connections by the stack's descriptor.
static void events(ws_stack a, ws_stack b) {
    ws_sock listener = listening(b, "0.0.0.0", 7);
    EQUAL(ws_set_nonblocking(listener, 1), 0);
    EQUAL(ws_accept(listener, NULL, NULL), -EAGAIN);
    EQUAL(ws_watch(listener, WS_IN, NULL), 0);
    struct pollfd loop = {ws_stack_fd(b), POLLIN, 0};
    ws_event news[4];
    while (ws_events(b, news, 4) != 0)
        ;
    EQUAL(poll(&loop, 1, 0), 0); // nothing has come

    ws_sock client = OF(ws_socket(a, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    struct sockaddr_in to = at("192.0.2.2", 7);
    int result = ws_connect(client, ADDRESS(to));
    TRUE(result == -EINPROGRESS || result == 0);
    ws_pollfd asked = {client, WS_OUT, 0};
    EQUAL(ws_poll(&asked, 1, 10000), 1);
    EQUAL(asked.revents, WS_OUT);
    int error = 99;
    socklen_t length = sizeof error;
    EQUAL(ws_getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    EQUAL(error, 0);

    EQUAL(poll(&loop, 1, 10000), 1);
    EQUAL(ws_events(b, news, 4), 1);
    EQUAL(news[0].socket, listener);
    EQUAL(news[0].events, WS_IN);
    EQUAL(ws_events(b, news, 4), 1); // it is reported until it is taken
    ws_sock server = OF(ws_accept(listener, NULL, NULL));
    int mark;
    EQUAL(ws_watch(server, WS_IN | WS_OUT, &mark), 0);
    EQUAL(poll(&loop, 1, 10000), 1);
    EQUAL(ws_events(b, news, 4), 1);
    EQUAL(news[0].events, WS_OUT);
    TRUE(news[0].user == &mark);
    EQUAL(ws_watch(server, WS_IN, &mark), 0);
    while (ws_events(b, news, 4) != 0)
        ;
    EQUAL(ws_send(client, "hello", 5, 0), 5);
    EQUAL(poll(&loop, 1, 10000), 1);
    EQUAL(ws_events(b, news, 4), 1);
    EQUAL(news[0].events, WS_IN);
    EQUAL(ws_close(server), 0);
    while (ws_events(b, news, 4) != 0)
        ;
    EQUAL(poll(&loop, 1, 0), 0); // a closed socket has no news
    EQUAL(ws_close(client), 0);
    EQUAL(ws_close(listener), 0);
}

static void forwarder(ws_stack a, ws_stack b) {
    OF(ws_route_add(a, "198.51.100.0/24", "192.0.2.2", 0));
    ws_sock forwarder = OF(ws_forwarder(b, 16));
    EQUAL(ws_forwarder(b, 16), -EADDRINUSE);
    for (int admitted = 0; admitted < 2; admitted++) {
        ws_sock client = OF(ws_socket(a, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        struct sockaddr_in to = at("198.51.100.7", 443), found;
        socklen_t length = sizeof found;
        EQUAL(ws_connect(client, ADDRESS(to)), -EINPROGRESS);
        ws_sock asked = OF(ws_accept(forwarder, NULL, NULL));
        EQUAL(ws_getsockname(asked, (struct sockaddr *)&found, &length), 0);
        EQUAL(memcmp(&found, &to, sizeof to), 0);
        EQUAL(ws_send(asked, "x", 1, 0), -ENOTCONN);
        if (admitted) {
            EQUAL(ws_admit(asked), 0);
            EQUAL(ws_admit(asked), -EINVAL);
            EQUAL(ws_send(asked, "x", 1, 0), 1);
        }
        EQUAL(ws_close(asked), 0);
        ws_pollfd wait = {client, WS_IN, 0};
        EQUAL(ws_poll(&wait, 1, 10000), 1);
        char byte;
        EQUAL(ws_recv(client, &byte, 1, 0), admitted ? 1 : -ECONNREFUSED);
        EQUAL(ws_close(client), 0);
    }
    EQUAL(ws_close(forwarder), 0);
}

static void *wait_to_accept(void *argument) {
    return (void *)(intptr_t)ws_accept(*(ws_sock *)argument, NULL, NULL);
}

static void *wait_to_receive(void *argument) {
    char byte;
    return (void *)(intptr_t)ws_recv(*(ws_sock *)argument, &byte, 1, 0);
}

static intptr_t joined(pthread_t thread) {
    void *result;
    EQUAL(pthread_join(thread, &result), 0);
    return (intptr_t)result;
}

// A close ends the calls of other threads, before they wait and while they do.
static void closes(ws_stack a, ws_stack b) {
    for (int pause_us = 0; pause_us <= 20000; pause_us += 10000) {
        pthread_t threads[3];
        ws_sock listener = listening(b, "192.0.2.2", 81), taken;
        ws_sock client = OF(ws_socket(a, AF_INET, SOCK_STREAM, 0));
        ws_sock datagrams = OF(ws_socket(a, AF_INET, SOCK_DGRAM, 0));
        struct sockaddr_in to = at("192.0.2.2", 81);
        EQUAL(ws_connect(client, ADDRESS(to)), 0);
        taken = OF(ws_accept(listener, NULL, NULL));
        EQUAL(pthread_create(&threads[0], NULL, wait_to_accept, &listener), 0);
        EQUAL(pthread_create(&threads[1], NULL, wait_to_receive, &client), 0);
        EQUAL(pthread_create(&threads[2], NULL, wait_to_receive, &datagrams), 0);
        usleep((useconds_t)pause_us);
        EQUAL(ws_close(listener), 0);
        EQUAL(ws_close(client), 0);
        EQUAL(ws_close(datagrams), 0);
        EQUAL(joined(threads[0]), -EBADF);
        intptr_t received = joined(threads[1]);
        TRUE(received == 0 || received == -EBADF);
        EQUAL(joined(threads[2]), -EBADF);
        EQUAL(ws_close(taken), 0);
    }
}

static volatile sig_atomic_t handled;

static void handle(int number) {
    handled = number;
}

// Signals are for the program's threads: the library's do not take them.
static void signals(void) {
    sigset_t usr1, pending;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    TRUE(signal(SIGUSR1, handle) != SIG_ERR);
    EQUAL(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
    EQUAL(kill(getpid(), SIGUSR1), 0);
    EQUAL(handled, 0);
    EQUAL(sigpending(&pending), 0);
    TRUE(sigismember(&pending, SIGUSR1));
    EQUAL(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
    EQUAL(handled, SIGUSR1);
}

static ws_stack shared;

static void *churn(void *argument) {
    struct sockaddr_in to = at("192.0.2.2", 82);
    for (int i = 0; i < 100; i++) {
        ws_sock socket = ws_socket(shared, AF_INET, SOCK_STREAM, 0);
        if (socket < 0)
            break; // the stack was freed
        ws_connect(socket, ADDRESS(to));
        ws_send(socket, "x", 1, MSG_DONTWAIT);
        ws_close(socket);
    }
    return argument;
}

int main(void) {
    ws_stack both[2];
    pair(both);
    streams(both[0], both[1]);
    signals();
    options(both[0]);
    inherited(both[0], both[1]);
    datagrams(both[0], both[1]);
    events(both[0], both[1]);
    forwarder(both[0], both[1]);
    closes(both[0], both[1]);

    // Two threads use a stack, and a third one waits, while it is freed.
    ws_sock listener = listening(both[1], "192.0.2.2", 82), idle = listening(both[0], "0.0.0.0", 1);
    pthread_t threads[3];
    shared = both[0];
    EQUAL(pthread_create(&threads[0], NULL, churn, NULL), 0);
    EQUAL(pthread_create(&threads[1], NULL, churn, NULL), 0);
    EQUAL(pthread_create(&threads[2], NULL, wait_to_accept, &idle), 0);
    usleep(3000);
    EQUAL(ws_stack_free(both[0]), 0);
    joined(threads[0]);
    joined(threads[1]);
    TRUE(joined(threads[2]) < 0);
    EQUAL(ws_close(listener), 0);
    EQUAL(ws_stack_free(both[1]), 0);
    printf("ok\n");
    return 0;
}
