// A gateway at one end of a socket pair, and a machine at the other end, made of Ethernet frames by
// hand: it asks for an address, sees its packet refused, and sees the end of the gateway.

#include "check.h"

#include <poll.h>

enum { ROOM = 2048, PATIENCE_MS = 60000 };

static const uint8_t OWN[6] = {0x52, 0x54, 0, 0, 0, 1};
static const uint8_t MACHINE[4] = {10, 0, 2, 100};

// What the callbacks saw.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    ws_gateway gateway;
    int lines, denied, allowed;
} seen = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0};

static void take_line(void *user, const char *line) {
    TRUE(user == &seen && line[0] == '{' && strchr(line, '\n') == NULL);
    pthread_mutex_lock(&seen.lock);
    // Each call inside of a callback is refused, and that of a stop does not wait for itself.
    int refused = ws_gateway_stop(seen.gateway) == -EDEADLK &&
                  ws_gateway_has_ended(seen.gateway) == -EDEADLK &&
                  ws_gateway_networks(seen.gateway, NULL, 0) == -EDEADLK &&
                  ws_gateway_start(NULL) == -EDEADLK;
    seen.allowed += !refused;
    seen.denied += strstr(line, "\"verdict\":\"deny\"") != NULL;
    seen.lines++;
    pthread_cond_signal(&seen.news);
    pthread_mutex_unlock(&seen.lock);
}

static void put16(uint8_t *at, size_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

// Writes the headers of a UDP datagram before its data, and returns the length of the frame.
static size_t datagram(uint8_t *frame, const uint8_t *from, const uint8_t *to, int from_port,
                       int to_port, size_t length) {
    static const uint8_t GATEWAYS_OWN[6] = {2, 0, 0, 0, 0, 2};
    uint8_t *ip = frame + 14, *udp = ip + 20;
    memset(frame, 0xff, 6);
    if (to[0] != 255)
        memcpy(frame, GATEWAYS_OWN, 6);
    memcpy(frame + 6, OWN, 6);
    put16(frame + 12, 0x0800);
    memset(ip, 0, 28);
    ip[0] = 0x45;
    put16(ip + 2, 28 + length);
    ip[8] = 64;
    ip[9] = IPPROTO_UDP;
    memcpy(ip + 12, from, 4);
    memcpy(ip + 16, to, 4);
    uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2)
        sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
    put16(ip + 10, ~(sum % 0xffff) & 0xffff);
    put16(udp, (size_t)from_port);
    put16(udp + 2, (size_t)to_port);
    put16(udp + 4, 8 + length);
    return 42 + length;
}

static size_t discover(uint8_t *frame) {
    static const uint8_t ANY[4], ALL[4] = {255, 255, 255, 255};
    // The cookie, the type DISCOVER, the end.
    static const uint8_t OPTIONS[] = {0x63, 0x82, 0x53, 0x63, 53, 1, 1, 255};
    uint8_t *bootp = frame + 42;
    memset(bootp, 0, 300);
    memcpy(bootp, "\1\1\6\0ws47", 8);
    put16(bootp + 10, 0x8000); // the answer is a broadcast
    memcpy(bootp + 28, OWN, 6);
    memcpy(bootp + 236, OPTIONS, sizeof OPTIONS);
    return datagram(frame, ANY, ALL, 68, 67, 300);
}

static int is_offer(const uint8_t *frame, size_t length) {
    const uint8_t *bootp = frame + 42, *option = bootp + 240;
    if (length < 42 + 244 || frame[12] != 8 || frame[13] != 0 || frame[23] != IPPROTO_UDP ||
        frame[36] != 0 || frame[37] != 68 || memcmp(bootp + 4, "ws47", 4) != 0)
        return 0;
    TRUE(bootp[0] == 2 && memcmp(bootp + 16, MACHINE, 4) == 0);
    for (; option + 2 < frame + length && option[0] != 255; option += 2 + option[1])
        if (option[0] == 53)
            return option[2] == 2;
    return 0;
}

static int is_stream(int fd) {
    int kind;
    socklen_t length = sizeof kind;
    EQUAL(getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length), 0);
    return kind == SOCK_STREAM;
}

static void send_frame(int fd, const uint8_t *frame, size_t length) {
    uint32_t size = htonl((uint32_t)length);
    if (is_stream(fd))
        EQUAL(write(fd, &size, sizeof size), sizeof size);
    EQUAL(write(fd, frame, length), length);
}

// The next frame, or 0 at the end.
static size_t next_frame(int fd, uint8_t *frame) {
    struct pollfd asked = {fd, POLLIN, 0};
    uint32_t size = 0;
    EQUAL(poll(&asked, 1, PATIENCE_MS), 1);
    if (!is_stream(fd)) {
        ssize_t length = read(fd, frame, ROOM);
        TRUE(length > 0);
        return (size_t)length;
    }
    ssize_t got = recv(fd, &size, sizeof size, MSG_WAITALL);
    if (got == 0 || (got < 0 && errno == ECONNRESET))
        return 0;
    EQUAL(got, sizeof size);
    size = ntohl(size);
    TRUE(size > 0 && size <= ROOM);
    EQUAL(recv(fd, frame, size, MSG_WAITALL), size);
    return size;
}

static void get_offer(int fd) {
    uint8_t frame[ROOM];
    size_t length;
    send_frame(fd, frame, discover(frame));
    do {
        length = next_frame(fd, frame);
        TRUE(length > 0);
    } while (!is_offer(frame, length));
}

static void get_refused(int fd) {
    static const uint8_t ELSEWHERE[4] = {192, 0, 2, 7};
    uint8_t frame[ROOM];
    memset(frame, 'x', sizeof frame);
    send_frame(fd, frame, datagram(frame, MACHINE, ELSEWHERE, 4000, 9, 10));
    pthread_mutex_lock(&seen.lock);
    while (seen.denied == 0)
        pthread_cond_wait(&seen.news, &seen.lock);
    EQUAL(seen.allowed, 0);
    pthread_mutex_unlock(&seen.lock);
}

static ws_gateway start(int fd, int kind) {
    ws_vm vm = {fd, kind};
    ws_gateway_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.vms = &vm;
    config.vm_count = 1;
    config.net6 = config.dns = "off";
    config.log = take_line;
    config.user = &seen;
    pthread_mutex_lock(&seen.lock);
    seen.denied = 0;
    pthread_mutex_unlock(&seen.lock);
    ws_gateway gateway = OF(ws_gateway_start(&config));
    pthread_mutex_lock(&seen.lock);
    seen.gateway = gateway;
    pthread_mutex_unlock(&seen.lock);
    return gateway;
}

static void use(ws_gateway gateway, int machine) {
    static const char LINE[] =
        "link 0 network 10.0.2.0/24 gateway 10.0.2.2 resolver 10.0.2.3 machine 10.0.2.100\n";
    char text[sizeof LINE + 1];
    EQUAL(ws_gateway_networks(gateway, text, sizeof text), strlen(LINE));
    EQUAL(strcmp(text, LINE), 0);
    EQUAL(ws_gateway_networks(gateway, text, 5), strlen(LINE));
    EQUAL(strcmp(text, "link"), 0);
    get_offer(machine);
    get_refused(machine);
    EQUAL(ws_gateway_has_ended(gateway), 0);
    EQUAL(ws_gateway_stop(gateway), 0);
    int lines = seen.lines; // no callback runs any more
    EQUAL(ws_gateway_stop(gateway), -EBADF);
    EQUAL(ws_gateway_has_ended(gateway), -EBADF);
    EQUAL(ws_gateway_networks(gateway, NULL, 0), -EBADF);
    EQUAL(seen.lines, lines);
}

// Asks for as long as there is something to ask.
static void *ask(void *argument) {
    ws_gateway gateway = *(ws_gateway *)argument;
    char text[200];
    while (ws_gateway_networks(gateway, text, sizeof text) > 0)
        if (ws_gateway_has_ended(gateway) < 0)
            break;
    EQUAL(ws_gateway_stop(gateway), -EBADF);
    return NULL;
}

// Two threads ask while a third one stops the gateway.
static void stopped_by_another(void) {
    int ends[2];
    pthread_t threads[2];
    EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    ws_gateway gateway = start(ends[0], WS_FD_VM_DGRAM);
    for (int i = 0; i < 2; i++)
        EQUAL(pthread_create(&threads[i], NULL, ask, &gateway), 0);
    EQUAL(ws_gateway_stop(gateway), 0);
    for (int i = 0; i < 2; i++)
        EQUAL(pthread_join(threads[i], NULL), 0);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    int ends[2];
    stopped_by_another();
    // One link, and one gateway after the other.
    EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    ws_gateway first = start(ends[0], WS_FD_VM_DGRAM);
    use(first, ends[1]);
    ws_gateway second = start(ends[0], WS_FD_VM_DGRAM);
    TRUE(second != first);
    use(second, ends[1]);
    close(ends[0]);
    close(ends[1]);

    // The gateway has the only descriptor of its end, which it closes.
    uint8_t frame[ROOM];
    EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ws_gateway third = start(ends[0], WS_FD_VM_STREAM);
    close(ends[0]);
    use(third, ends[1]);
    while (next_frame(ends[1], frame) > 0)
        continue;
    close(ends[1]);

    // A machine that goes away does not end the process.
    EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ws_gateway fourth = start(ends[0], WS_FD_VM_STREAM);
    close(ends[0]);
    get_offer(ends[1]);
    close(ends[1]);
    TRUE(ws_gateway_has_ended(fourth) >= 0);
    ws_gateway_stop(fourth);
    EQUAL(ws_gateway_stop(fourth), -EBADF);
    printf("ok\n");
    return 0;
}
