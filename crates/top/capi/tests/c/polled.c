// Two polled stacks in one thread, joined by devices of the program: nothing runs outside of the
// calls, equal seeds give equal frames, and callbacks cannot call back.

#include "check.h"

enum { FRAMES = 64, LONGEST = 1600 };

// One direction of a link.
struct queue {
    unsigned char frames[FRAMES][LONGEST];
    size_t lengths[FRAMES], first, count;
};

struct end {
    struct queue *in, *out;
    ws_stack stack;
    int released, refused, wakes;
};

static uint32_t sum; // of all bytes of all frames

static int64_t receive(void *user, uint8_t *frame, size_t room) {
    struct end *end = user;
    struct queue *queue = end->in;
    if (ws_socket(end->stack, AF_INET, SOCK_STREAM, 0) == -EDEADLK &&
        ws_stack_free(end->stack) == -EDEADLK && ws_stack_poll(end->stack, 1) == -EDEADLK)
        end->refused++;
    if (queue->count == 0)
        return 0;
    size_t length = queue->lengths[queue->first];
    TRUE(length <= room);
    memcpy(frame, queue->frames[queue->first], length);
    queue->first = (queue->first + 1) % FRAMES;
    queue->count--;
    return (int64_t)length;
}

static int transmit(void *user, const uint8_t *frame, size_t length) {
    struct queue *queue = ((struct end *)user)->out;
    if (queue->count == FRAMES)
        return -EAGAIN;
    TRUE(length <= LONGEST);
    size_t last = (queue->first + queue->count++) % FRAMES;
    memcpy(queue->frames[last], frame, length);
    queue->lengths[last] = length;
    for (size_t i = 0; i < length; i++)
        sum = sum * 31 + frame[i];
    return 0;
}

static void release(void *user) {
    ((struct end *)user)->released++;
}

static int logged, traced, log_refused;

static void take_log(void *user, int level, const char *message) {
    (void)user;
    TRUE(level >= WS_LOG_ERROR && level <= WS_LOG_INFO && strlen(message) > 3);
    logged++;
    log_refused += ws_stack_new(NULL) == -EDEADLK;
}

static void take_frame(void *user, const ws_frame *frame) {
    (void)user;
    TRUE(frame->length > 0 && frame->port >= 0 && frame->time_ns >= 1000);
    traced++;
}

// Returns what the program's device must not return.
static int64_t broken(void *user, uint8_t *frame, size_t room) {
    (void)frame;
    int64_t result = *(int64_t *)user;
    return result > 0 ? (int64_t)room + 1 : result;
}

static int refuse(void *user, const uint8_t *frame, size_t length) {
    (void)user;
    (void)frame;
    (void)length;
    return -EIO;
}

// A device that has room, or has not.
struct busy {
    int has_room, taken;
};

static int64_t nothing(void *user, uint8_t *frame, size_t room) {
    (void)user;
    (void)frame;
    (void)room;
    return 0;
}

static int take_if_room(void *user, const uint8_t *frame, size_t length) {
    struct busy *busy = user;
    TRUE(frame != NULL && length > 20);
    if (!busy->has_room)
        return -EAGAIN;
    busy->taken++;
    return 0;
}

static int64_t always(void *user, uint8_t *frame, size_t room) {
    (void)user;
    memset(frame, 0x45, room);
    return (int64_t)room;
}

static ws_stack polled_stack(uint64_t seed) {
    ws_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.flags = WS_POLLED;
    config.seed[0] = seed;
    config.log = take_log;
    config.trace = take_frame;
    return OF(ws_stack_new(&config));
}

static uint32_t transfer(uint64_t seed) {
    static struct queue queues[2];
    static struct end ends[2];
    ws_stack stacks[2];
    char text[32];
    memset(queues, 0, sizeof queues);
    memset(ends, 0, sizeof ends);
    sum = 0;
    for (int i = 0; i < 2; i++) {
        ends[i].in = &queues[i];
        ends[i].out = &queues[1 - i];
        ends[i].stack = stacks[i] = polled_stack(seed + (uint64_t)i);
        ws_device device;
        memset(&device, 0, sizeof device);
        device.size = sizeof device;
        device.user = &ends[i];
        device.receive = receive;
        device.transmit = transmit;
        device.release = release;
        EQUAL(ws_port_device(stacks[i], &device), 0);
        snprintf(text, sizeof text, "192.0.2.%d/24", i + 1);
        OF(ws_address_add(stacks[i], 0, text));
    }
    EQUAL(ws_stack_start(stacks[0]), -EINVAL);

    uint64_t now = 1000, next;
    ws_sock listener = listening(stacks[1], "192.0.2.2", 80), server = -1;
    ws_sock client = OF(ws_socket(stacks[0], AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in to = at("192.0.2.2", 80);
    EQUAL(ws_stack_poll(stacks[0], now), 0);
    EQUAL(ws_stack_poll(stacks[1], now), 0);
    EQUAL(ws_connect(client, ADDRESS(to)), -EINPROGRESS);
    EQUAL(ws_accept(listener, NULL, NULL), -EAGAIN);
    static char bytes[50000], got[50000];
    size_t sent = 0, received = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 3);
    for (int round = 0; round < 100000 && received < sizeof got; round++) {
        now += 100000;
        for (int i = 0; i < 2; i++) {
            EQUAL(ws_stack_poll(stacks[i], now), 0);
            EQUAL(ws_next_deadline(stacks[i], &next), 0);
        }
        if (server < 0)
            server = ws_accept(listener, NULL, NULL);
        ws_pollfd asked = {client, WS_OUT, 0};
        if (sent < sizeof bytes && ws_poll(&asked, 1, -1) == 1) {
            int64_t now_sent = ws_send(client, bytes + sent, sizeof bytes - sent, 0);
            if (now_sent > 0)
                sent += (size_t)now_sent;
        }
        if (server > 0) {
            int64_t now_got = ws_recv(server, got + received, sizeof got - received, 0);
            if (now_got > 0)
                received += (size_t)now_got;
        }
    }
    EQUAL(received, sizeof got);
    EQUAL(memcmp(bytes, got, sizeof got), 0);
    EQUAL(ws_resolve(stacks[0], "localhost", 1, NULL, 0), 0);
    EQUAL(ws_port_wake(stacks[0], 0), 0);
    EQUAL(ws_next_deadline(stacks[0], &next), 0);
    EQUAL(next, 0); // it wants to be polled
    EQUAL(ws_port_remove(stacks[0], 0), 0);
    EQUAL(ends[0].released, 1);
    EQUAL(ws_port_wake(stacks[0], 0), -ENODEV);
    for (int i = 0; i < 2; i++) {
        EQUAL(ws_stack_free(stacks[i]), 0);
        EQUAL(ends[i].released, 1);
        TRUE(ends[i].refused > 0);
    }
    return sum;
}

// A frame that a device had no room for goes out after ws_port_wake().
static void room_again(ws_stack stack) {
    struct busy busy = {0, 0};
    ws_device device;
    memset(&device, 0, sizeof device);
    device.size = sizeof device;
    device.user = &busy;
    device.link = WS_LINK_IP;
    device.receive = nothing;
    device.transmit = take_if_room;
    int port = OF(ws_port_device(stack, &device));
    OF(ws_address_add(stack, port, "198.51.100.1/24"));
    ws_sock socket = OF(ws_socket(stack, AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in to = at("198.51.100.2", 9);
    EQUAL(ws_sendto(socket, "x", 1, 0, ADDRESS(to)), 1);
    EQUAL(ws_stack_poll(stack, 1002), 0);
    EQUAL(busy.taken, 0);
    busy.has_room = 1;
    EQUAL(ws_port_wake(stack, port), 0);
    EQUAL(ws_stack_poll(stack, 1003), 0);
    EQUAL(busy.taken, 1);
    EQUAL(ws_close(socket), 0);
    EQUAL(ws_port_remove(stack, port), 0);
}

// A device that always has a frame, with and without buffers for frames: each poll ends.
static void without_end(void) {
    for (uint64_t bytes = 0; bytes <= 1 << 20; bytes += 1 << 20) {
        ws_limit limit = {"mbuf_bytes", bytes};
        ws_config config;
        memset(&config, 0, sizeof config);
        config.size = sizeof config;
        config.flags = WS_POLLED;
        config.limits = &limit;
        config.limit_count = 1;
        ws_stack stack = OF(ws_stack_new(&config));
        ws_device device;
        memset(&device, 0, sizeof device);
        device.size = sizeof device;
        device.link = WS_LINK_IP;
        device.receive = always;
        device.transmit = refuse;
        EQUAL(ws_port_device(stack, &device), 0);
        for (uint64_t now = 1000; now < 1010; now++)
            EQUAL(ws_stack_poll(stack, now), 0);
        EQUAL(ws_stack_free(stack), 0);
    }
}

int main(void) {
    uint32_t first = transfer(1);
    EQUAL(transfer(1), first);
    TRUE(transfer(2) != first);
    TRUE(logged > 0 && log_refused == logged && traced > 0);

    // Devices that break their promise are gone, and nothing else happens.
    ws_stack stack = polled_stack(9);
    ws_device device;
    memset(&device, 0, sizeof device);
    device.size = sizeof device;
    device.receive = broken;
    device.transmit = refuse;
    static int64_t results[] = {1, INT64_MIN, INT64_MIN + 1, -1, -EIO};
    for (int i = 0; i < 5; i++) {
        device.user = &results[i];
        EQUAL(ws_port_device(stack, &device), i);
    }
    EQUAL(ws_stack_poll(stack, 1000), 0);
    EQUAL(ws_stack_poll(stack, 1001), 0);
    room_again(stack);
    without_end();
    // A time that goes back, or as far as that, counts as the last one.
    uint64_t next;
    EQUAL(ws_stack_poll(stack, 0), 0);
    EQUAL(ws_stack_poll(stack, UINT64_MAX), 0);
    EQUAL(ws_stack_poll(stack, 2000), 0);
    EQUAL(ws_next_deadline(stack, &next), 0);
    EQUAL(ws_next_deadline(stack, NULL), -EFAULT);
    EQUAL(ws_stack_free(stack), 0);
    printf("ok\n");
    return 0;
}
