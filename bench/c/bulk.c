// Bulk over memory through the C library: two stacks joined by a wire in memory, a thread that sends
// and one that receives, with calls of 128 KiB. bench/src/programs/c.rs has the same in Rust, runs
// both, and reads what this prints: a measurement in JSON.
//
//     bulk SECONDS

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wirespeed.h>

enum { CALL = 128 * 1024 };

// What runs before the measurement begins.
static const double WARM_S = 0.05;

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int64_t must(int64_t result, const char *what) {
    if (result < 0) {
        char why[512];
        ws_last_error(why, sizeof why);
        fprintf(stderr, "bulk: %s: %s\n", what, why);
        exit(1);
    }
    return result;
}

static void *send_on(void *argument) {
    static char bytes[CALL];
    ws_sock socket = *(ws_sock *)argument;
    while (ws_send(socket, bytes, sizeof bytes, 0) > 0)
        ;
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = argc == 2 ? atof(argv[1]) : 1.0;
    int port_a, port_b;
    ws_stack a = must(ws_stack_new(NULL), "stack"), b = must(ws_stack_new(NULL), "stack");
    must(ws_pair(a, b, &port_a, &port_b), "pair");
    must(ws_address_add(a, port_a, "192.0.2.1/24"), "address");
    must(ws_address_add(b, port_b, "192.0.2.2/24"), "address");
    must(ws_stack_start(a), "start");
    must(ws_stack_start(b), "start");

    struct sockaddr_in to;
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_port = htons(5001);
    inet_pton(AF_INET, "192.0.2.2", &to.sin_addr);
    ws_sock listener = must(ws_socket(b, AF_INET, SOCK_STREAM, 0), "socket");
    must(ws_bind(listener, (struct sockaddr *)&to, sizeof to), "bind");
    must(ws_listen(listener, 1), "listen");
    ws_sock client = must(ws_socket(a, AF_INET, SOCK_STREAM, 0), "socket");
    must(ws_connect(client, (struct sockaddr *)&to, sizeof to), "connect");
    ws_sock server = must(ws_accept(listener, NULL, NULL), "accept");
    pthread_t sender;
    if (pthread_create(&sender, NULL, send_on, &client) != 0)
        return 1;

    static char room[CALL];
    double began = seconds_of(CLOCK_MONOTONIC);
    while (seconds_of(CLOCK_MONOTONIC) - began < WARM_S)
        must(ws_recv(server, room, sizeof room, 0), "receive");
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t total = 0;
    began = seconds_of(CLOCK_MONOTONIC);
    while (seconds_of(CLOCK_MONOTONIC) - began < seconds)
        total += (uint64_t)must(ws_recv(server, room, sizeof room, 0), "receive");
    cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"bytes\": %llu, \"wall_s\": %.9f, \"cpu_s\": %.9f}\n", (unsigned long long)total,
           seconds_of(CLOCK_MONOTONIC) - began, cpu);
    must(ws_close(server), "close"); // the sender's call fails
    pthread_join(sender, NULL);
    must(ws_stack_free(a), "free");
    must(ws_stack_free(b), "free");
    return 0;
}
