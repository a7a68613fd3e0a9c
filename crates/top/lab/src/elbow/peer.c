/* A client and a server of the null procedure over libtirpc, for `wirespeed lab elbow` and
 * `cargo xtask bench rpc`, which compile it where a C compiler and libtirpc are installed.
 *
 *   peer server                                prints the ports of TCP and UDP, and serves
 *                                              until standard input ends
 *   peer calls ADDRESS PORT tcp|udp CALLS ROUNDS SIZE...
 *       for each size a line: the size, nanoseconds a call in each round, then "calls N packets N
 *       delayed N blocked_us N" of all rounds; a size is stopped after two seconds
 *   peer latency ADDRESS PORT CALLS SIZE       prints the median of nanoseconds a call
 *   peer busy ADDRESS PORT THREADS SECONDS SIZE
 *       prints calls, and the nanoseconds of processor time that they took here
 */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <rpc/rpc.h>

#define PROGRAM 0x20001989
#define DATAGRAM 65000
#define STOP_NS 2000000000LL

static bool_t argument(XDR *xdrs, void *data)
{
    char **bytes = data;
    return xdr_bytes(xdrs, &bytes[0], (u_int *)&bytes[1], 1 << 20);
}

static long long now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "peer: %s\n", what);
    exit(1);
}

static void serve(struct svc_req *request, SVCXPRT *transport)
{
    char *bytes[2] = { NULL, NULL };
    (void)request;
    if (!svc_getargs(transport, (xdrproc_t)argument, (char *)bytes)) {
        svcerr_decode(transport);
        return;
    }
    svc_sendreply(transport, (xdrproc_t)(void *)xdr_void, NULL);
    svc_freeargs(transport, (xdrproc_t)argument, (char *)bytes);
}

static void *end_with_input(void *unused)
{
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    exit(0);
    return unused;
}

static int server(void)
{
    pthread_t thread;
    SVCXPRT *tcp = svctcp_create(RPC_ANYSOCK, 0, 0);
    SVCXPRT *udp = svcudp_bufcreate(RPC_ANYSOCK, DATAGRAM, DATAGRAM);
    if (!tcp || !udp || !svc_register(tcp, PROGRAM, 1, serve, 0)
        || !svc_register(udp, PROGRAM, 1, serve, 0))
        fail("cannot serve");
    printf("%d %d\n", tcp->xp_port, udp->xp_port);
    fflush(stdout);
    if (pthread_create(&thread, NULL, end_with_input, NULL))
        fail("cannot make a thread");
    svc_run();
    return 1;
}

static CLIENT *client(const char *address, int port, int is_udp, int *socket)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct timeval retry = { 5, 0 };
    CLIENT *made;
    *socket = RPC_ANYSOCK;
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        fail("that is not an IPv4 address");
    made = is_udp ? clntudp_bufcreate(&to, PROGRAM, 1, retry, socket, DATAGRAM, DATAGRAM)
                  : clnttcp_create(&to, PROGRAM, 1, socket, 0, 0);
    if (!made)
        fail(clnt_spcreateerror("connect"));
    return made;
}

static void call(CLIENT *to, char *data, unsigned long size)
{
    struct timeval limit = { 25, 0 };
    char *bytes[2] = { data, (char *)size };
    enum clnt_stat said = clnt_call(to, 0, (xdrproc_t)argument, (char *)bytes,
                                    (xdrproc_t)(void *)xdr_void, NULL, limit);
    if (said != RPC_SUCCESS)
        fail(clnt_sperrno(said));
}

/* The kernel's count of delayed ACKs that were sent, in this network namespace. */
static long long delayed_acks(void)
{
    char names[8192], values[8192];
    long long found = 0;
    FILE *file = fopen("/proc/thread-self/net/netstat", "r");
    while (file && fgets(names, sizeof names, file) && fgets(values, sizeof values, file)) {
        char *n, *v, *name = strtok_r(names, " \n", &n), *value = strtok_r(values, " \n", &v);
        for (; name && value; name = strtok_r(NULL, " \n", &n), value = strtok_r(NULL, " \n", &v))
            if (!strcmp(name, "DelayedACKs"))
                found = atoll(value);
    }
    if (file)
        fclose(file);
    return found;
}

static struct tcp_info info(int socket)
{
    struct tcp_info found = { 0 };
    socklen_t size = sizeof found;
    getsockopt(socket, IPPROTO_TCP, TCP_INFO, &found, &size);
    return found;
}

static int calls(int count, char **words)
{
    int socket, is_udp = !strcmp(words[2], "udp"), per_round = atoi(words[3]);
    int rounds = atoi(words[4]);
    CLIENT *to = client(words[0], atoi(words[1]), is_udp, &socket);
    char *data = calloc(1, 1 << 20);
    for (int at = 5; at < count; at++) {
        unsigned long size = strtoul(words[at], NULL, 10);
        for (int n = 0; n < 3; n++)
            call(to, data, size);
        struct tcp_info before = info(socket);
        long long acks = delayed_acks(), begun = now_ns(CLOCK_MONOTONIC);
        int done = 0;
        printf("%lu", size);
        for (int round = 0; round < rounds; round++) {
            long long start = now_ns(CLOCK_MONOTONIC), end;
            for (int n = 0; n < per_round; n++) {
                call(to, data, size);
                done++;
                if (now_ns(CLOCK_MONOTONIC) - begun > STOP_NS) {
                    round = rounds;
                    per_round = n + 1;
                }
            }
            end = now_ns(CLOCK_MONOTONIC);
            printf(" %.1f", (double)(end - start) / per_round);
        }
        per_round = atoi(words[3]);
        struct tcp_info after = info(socket);
        unsigned packets = after.tcpi_segs_out - before.tcpi_segs_out
                           + after.tcpi_segs_in - before.tcpi_segs_in;
        printf(" calls %d packets %u delayed %lld blocked_us %llu\n", done, packets,
               delayed_acks() - acks,
               (unsigned long long)(after.tcpi_sndbuf_limited - before.tcpi_sndbuf_limited));
        fflush(stdout);
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

static int latency(char **words)
{
    int socket, count = atoi(words[2]);
    CLIENT *to = client(words[0], atoi(words[1]), 0, &socket);
    char *data = calloc(1, 1 << 20);
    long long *took = calloc(count + 1, sizeof *took);
    for (int n = 0; n < count; n++) {
        long long start = now_ns(CLOCK_MONOTONIC);
        call(to, data, strtoul(words[3], NULL, 10));
        took[n] = now_ns(CLOCK_MONOTONIC) - start;
    }
    qsort(took, count, sizeof *took, by_value);
    printf("%lld\n", took[count / 2]);
    return 0;
}

struct worker {
    pthread_t thread;
    char **words;
    long long calls;
};

static void *work(void *given)
{
    struct worker *worker = given;
    int socket;
    CLIENT *to = client(worker->words[0], atoi(worker->words[1]), 0, &socket);
    unsigned long size = strtoul(worker->words[4], NULL, 10);
    char *data = calloc(1, 1 << 20);
    long long end = now_ns(CLOCK_MONOTONIC) + (long long)(atof(worker->words[3]) * 1e9);
    while (now_ns(CLOCK_MONOTONIC) < end) {
        call(to, data, size);
        worker->calls++;
    }
    return NULL;
}

static int busy(char **words)
{
    int threads = atoi(words[2]);
    struct worker *workers = calloc(threads + 1, sizeof *workers);
    long long calls = 0, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int n = 0; n < threads; n++) {
        workers[n].words = words;
        if (pthread_create(&workers[n].thread, NULL, work, &workers[n]))
            fail("cannot make a thread");
    }
    for (int n = 0; n < threads; n++) {
        pthread_join(workers[n].thread, NULL);
        calls += workers[n].calls;
    }
    printf("%lld %lld\n", calls, now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    return 0;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "server"))
        return server();
    if (!strcmp(what, "calls") && count > 7)
        return calls(count - 2, words + 2);
    if (!strcmp(what, "latency") && count == 6)
        return latency(words + 2);
    if (!strcmp(what, "busy") && count == 7)
        return busy(words + 2);
    fail("usage: peer server | calls | latency | busy");
    return 2;
}
