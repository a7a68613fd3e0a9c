/* A client of NFS by libnfs, for `cargo xtask bench rpc`, which compiles it where a C compiler and
 * libnfs-dev are installed.
 *
 *   peer URL BYTES PIECE FLYING
 *       mounts the directory and prints "mounted". Then, for each line of standard input, "read
 *       NAME" or "write NAME", transfers BYTES bytes of that file by calls of PIECE bytes, FLYING
 *       at a time, and prints the nanoseconds that it took, the COMMIT included.
 */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <nfsc/libnfs.h>

struct transfer {
    struct nfs_context *nfs;
    struct nfsfh *file;
    uint64_t next, done, end, piece;
    int flying;
    char *data; /* what is written; NULL to read */
};

static void fail(struct nfs_context *nfs, const char *what)
{
    fprintf(stderr, "libnfs: %s: %s\n", what, nfs ? nfs_get_error(nfs) : "?");
    exit(1);
}

static void finished(int status, struct nfs_context *nfs, void *data, void *private_data)
{
    struct transfer *t = private_data;
    (void)data;
    if (status <= 0)
        fail(nfs, t->data ? "writing" : "reading");
    t->flying--;
    t->done += status;
}

static void begin(struct transfer *t)
{
    uint64_t left = t->end - t->next, bytes = left < t->piece ? left : t->piece;
    int failed = t->data
        ? nfs_pwrite_async(t->nfs, t->file, t->next, bytes, t->data, finished, t)
        : nfs_pread_async(t->nfs, t->file, t->next, bytes, finished, t);
    if (failed)
        fail(t->nfs, "a call");
    t->next += bytes;
    t->flying++;
}

static void transfer(struct transfer *t, int flying)
{
    while (t->next < t->end || t->flying > 0) {
        while (t->next < t->end && t->flying < flying)
            begin(t);
        struct pollfd fd = { nfs_get_fd(t->nfs), nfs_which_events(t->nfs), 0 };
        if (poll(&fd, 1, 30000) <= 0)
            fail(t->nfs, "nothing for 30 s");
        if (nfs_service(t->nfs, fd.revents) < 0)
            fail(t->nfs, "the connection");
    }
    if (t->done != t->end)
        fail(t->nfs, "fewer bytes than asked for");
}

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        fail(NULL, "usage: peer URL BYTES PIECE FLYING");
    /* The memory of calls stays in the process, as at the other end. */
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    uint64_t bytes = strtoull(argv[2], NULL, 10), piece = strtoull(argv[3], NULL, 10);
    int flying = atoi(argv[4]);
    char *data = malloc(piece), line[300];
    struct nfs_context *nfs = nfs_init_context();
    struct nfs_url *url = nfs ? nfs_parse_url_dir(nfs, argv[1]) : NULL;
    if (!data || !url || nfs_mount(nfs, url->server, url->path))
        fail(nfs, "mounting");
    for (uint64_t i = 0; i < piece; i++)
        data[i] = i * 7;
    puts("mounted");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        int writes = strncmp(line, "write ", 6) == 0;
        const char *name = strchr(line, ' ');
        struct transfer t = { .nfs = nfs, .end = bytes, .piece = piece };
        t.data = writes ? data : NULL;
        if (!name || nfs_open(nfs, name + 1, writes ? O_WRONLY : O_RDONLY, &t.file))
            fail(nfs, "opening");
        long long start = now_ns();
        transfer(&t, flying);
        if (writes && nfs_fsync(nfs, t.file))
            fail(nfs, "the COMMIT");
        printf("%lld\n", now_ns() - start);
        fflush(stdout);
        nfs_close(nfs, t.file);
    }
    return 0;
}
