// tun2socks: every TCP connection that the kernel routes into a TUN interface goes through a SOCKS5
// proxy (RFC 1928).
//
//     sudo ./tun2socks ws0 10.9.0.1/24 10.9.0.2/24 127.0.0.1 1080
//     sudo ip route add 203.0.113.0/24 dev ws0
//     curl http://203.0.113.5/
//
// A connection is admitted after the proxy has reached its destination, and refused if it has not.
// Two threads carry a connection, one for each direction; a busier program would use ws_events().

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wirespeed.h>

struct flow {
    ws_sock inside; // our stack's socket
    int outside;    // the kernel's socket, to the proxy
};

static struct sockaddr_in proxy;

static void die(const char *what) {
    char why[512];
    ws_last_error(why, sizeof why);
    fprintf(stderr, "tun2socks: %s: %s\n", what, why);
    exit(1);
}

// Ask the proxy for a destination. Returns the connected descriptor, or -1.
static int ask_proxy(const struct sockaddr_storage *to) {
    unsigned char text[32] = {5, 1, 0}; // version 5, one method: without authentication
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&proxy, sizeof proxy) < 0 ||
        send(fd, text, 3, MSG_NOSIGNAL) != 3 || recv(fd, text, 2, MSG_WAITALL) != 2 ||
        text[0] != 5 || text[1] != 0)
        goto failed;
    size_t length = 4; // version, CONNECT, reserved, kind of address
    memcpy(text, "\x05\x01\x00", 3);
    if (to->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)to;
        text[3] = 4;
        memcpy(text + length, &v6->sin6_addr, 16);
        memcpy(text + length + 16, &v6->sin6_port, 2);
        length += 18;
    } else {
        const struct sockaddr_in *v4 = (const void *)to;
        text[3] = 1;
        memcpy(text + length, &v4->sin_addr, 4);
        memcpy(text + length + 4, &v4->sin_port, 2);
        length += 6;
    }
    if (send(fd, text, length, MSG_NOSIGNAL) != (ssize_t)length ||
        recv(fd, text, 4, MSG_WAITALL) != 4 || text[1] != 0)
        goto failed;
    // The address that the proxy connected from is of no interest.
    ssize_t rest = text[3] == 4 ? 18 : 6;
    if (recv(fd, text + 4, (size_t)rest, MSG_WAITALL) == rest)
        return fd;
failed:
    close(fd);
    return -1;
}

static void *outwards(void *argument) {
    struct flow *flow = argument;
    char bytes[65536];
    int64_t got;
    while ((got = ws_recv(flow->inside, bytes, sizeof bytes, 0)) > 0)
        for (int64_t done = 0; done < got;) {
            size_t rest = (size_t)(got - done);
            ssize_t sent = send(flow->outside, bytes + done, rest, MSG_NOSIGNAL);
            if (sent <= 0)
                goto end;
            done += sent;
        }
end:
    shutdown(flow->outside, SHUT_WR);
    return NULL;
}

static void *carry(void *argument) {
    struct flow *flow = argument;
    struct sockaddr_storage to;
    socklen_t length = sizeof to;
    pthread_t other;
    int on = 1; // a peer that has vanished ends its flow
    ws_setsockopt(flow->inside, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    flow->outside = -1;
    if (ws_getsockname(flow->inside, (struct sockaddr *)&to, &length) == 0)
        flow->outside = ask_proxy(&to);
    if (flow->outside >= 0 && ws_admit(flow->inside) == 0 &&
        pthread_create(&other, NULL, outwards, flow) == 0) {
        char bytes[65536];
        ssize_t got;
        while ((got = read(flow->outside, bytes, sizeof bytes)) > 0)
            if (ws_send(flow->inside, bytes, (size_t)got, 0) < 0)
                break;
        ws_shutdown(flow->inside, SHUT_WR);
        pthread_join(other, NULL);
    }
    ws_close(flow->inside); // refuses a connection that was not admitted
    if (flow->outside >= 0)
        close(flow->outside);
    free(flow);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: tun2socks INTERFACE KERNEL/LENGTH OURS/LENGTH PROXY PORT\n");
        return 2;
    }
    proxy.sin_family = AF_INET;
    proxy.sin_port = htons((uint16_t)atoi(argv[5]));
    if (inet_pton(AF_INET, argv[4], &proxy.sin_addr) != 1)
        return 2;
    ws_stack stack = ws_stack_new(NULL);
    if (stack < 0)
        die("no stack");
    int port = ws_port_tun(stack, argv[1], argv[2]);
    if (port < 0)
        die(argv[1]);
    if (ws_address_add(stack, port, argv[3]) < 0 || ws_route_add(stack, "0.0.0.0/0", NULL, port) < 0)
        die("no address");
    ws_sock forwarder = ws_forwarder(stack, 256);
    if (forwarder < 0 || ws_stack_start(stack) < 0)
        die("cannot start");
    printf("forwarding\n");
    fflush(stdout);
    for (;;) {
        struct flow *flow = malloc(sizeof *flow);
        pthread_t thread;
        if (flow == NULL || (flow->inside = ws_accept(forwarder, NULL, NULL)) < 0)
            die("cannot accept");
        if (pthread_create(&thread, NULL, carry, flow) != 0) {
            ws_close(flow->inside);
            free(flow);
        } else {
            pthread_detach(thread);
        }
    }
}
