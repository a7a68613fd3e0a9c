// What the tests in C share. A failed check prints where, and ends the program.

#ifndef CHECK_H
#define CHECK_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wirespeed.h>

#define EQUAL(result, wanted)                                                                      \
    do {                                                                                           \
        long long found_ = (long long)(result), wanted_ = (long long)(wanted);                     \
        if (found_ != wanted_) {                                                                   \
            char why_[512] = "";                                                                   \
            ws_last_error(why_, sizeof why_);                                                      \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, #result,     \
                    found_, wanted_, why_);                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define TRUE(condition) EQUAL((condition) != 0, 1)

// The result of a call that must succeed.
#define OF(call) positive((call), #call, __LINE__)

static inline int64_t positive(int64_t result, const char *what, int line) {
    if (result < 0) {
        char why[512] = "";
        ws_last_error(why, sizeof why);
        fprintf(stderr, "line %d: %s is %lld (%s)\n", line, what, (long long)result, why);
        exit(1);
    }
    return result;
}

static inline struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    TRUE(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
    return address;
}

#define ADDRESS(place) (struct sockaddr *)&(place), sizeof(place)

// Two stacks joined by a wire in memory: 192.0.2.1 and 192.0.2.2.
static inline void pair(ws_stack both[2]) {
    int ports[2];
    both[0] = OF(ws_stack_new(NULL));
    both[1] = OF(ws_stack_new(NULL));
    OF(ws_pair(both[0], both[1], &ports[0], &ports[1]));
    OF(ws_address_add(both[0], ports[0], "192.0.2.1/24"));
    OF(ws_address_add(both[1], ports[1], "192.0.2.2/24"));
    OF(ws_stack_start(both[0]));
    OF(ws_stack_start(both[1]));
}

static inline ws_sock listening(ws_stack stack, const char *ip, int port) {
    struct sockaddr_in here = at(ip, port);
    ws_sock listener = OF(ws_socket(stack, AF_INET, SOCK_STREAM, 0));
    OF(ws_bind(listener, ADDRESS(here)));
    OF(ws_listen(listener, 16));
    return listener;
}

#endif
