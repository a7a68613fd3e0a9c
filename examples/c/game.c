// A stack inside of a game loop: 60 frames a second, one thread, nothing runs outside of the loop.
// The server of a game with one UDP socket: each player's position comes in, and all positions go
// out to every player once a frame.
//
//     sudo ./game ws0 10.9.0.1/24 10.9.0.2/24 7777 600
//
// A player sends "x y" as text to 10.9.0.2:7777, and gets lines "PLAYER x y". The program ends after
// 600 frames. The time of the stack is the time of the game.

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wirespeed.h>

enum { PLAYERS_MAX = 16, FRAME_NS = 1000000000 / 60 };

struct player {
    struct sockaddr_in address;
    int x, y;
};

static struct player players[PLAYERS_MAX];
static int player_count;

static void die(const char *what) {
    char why[512];
    ws_last_error(why, sizeof why);
    fprintf(stderr, "game: %s: %s\n", what, why);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct player *player_at(const struct sockaddr_in *from) {
    for (int i = 0; i < player_count; i++)
        if (players[i].address.sin_addr.s_addr == from->sin_addr.s_addr &&
            players[i].address.sin_port == from->sin_port)
            return &players[i];
    if (player_count == PLAYERS_MAX)
        return NULL;
    players[player_count].address = *from;
    return &players[player_count++];
}

static void receive_moves(ws_sock socket) {
    char text[64];
    struct sockaddr_in from;
    for (;;) {
        socklen_t length = sizeof from;
        int64_t got = ws_recvfrom(socket, text, sizeof text - 1, 0, (struct sockaddr *)&from, &length);
        if (got < 0)
            return; // -EAGAIN: no more
        text[got] = 0;
        struct player *player = player_at(&from);
        if (player != NULL)
            sscanf(text, "%9d %9d", &player->x, &player->y);
    }
}

static void send_world(ws_sock socket) {
    char world[PLAYERS_MAX * 32];
    size_t length = 0;
    for (int i = 0; i < player_count; i++)
        length += (size_t)snprintf(world + length, sizeof world - length, "%d %d %d\n", i,
                                   players[i].x, players[i].y);
    for (int i = 0; i < player_count; i++)
        ws_sendto(socket, world, length, 0, (struct sockaddr *)&players[i].address,
                  sizeof players[i].address);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: game INTERFACE KERNEL/LENGTH OURS/LENGTH PORT FRAMES\n");
        return 2;
    }
    ws_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.flags = WS_POLLED;
    ws_stack stack = ws_stack_new(&config);
    if (stack < 0)
        die("no stack");
    int port = ws_port_tun(stack, argv[1], argv[2]);
    if (port < 0)
        die(argv[1]);
    if (ws_address_add(stack, port, argv[3]) < 0)
        die(argv[3]);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[4]))};
    ws_sock socket = ws_socket(stack, AF_INET, SOCK_DGRAM, 0);
    if (socket < 0 || ws_bind(socket, (struct sockaddr *)&at, sizeof at) < 0)
        die("cannot bind");
    printf("playing\n");
    fflush(stdout);

    uint64_t next = now_ns();
    for (int frame = 0; frame < atoi(argv[5]); frame++) {
        if (ws_stack_poll(stack, now_ns()) < 0)
            die("cannot poll");
        receive_moves(socket);
        // Here the game moves its monsters, and draws.
        send_world(socket);
        next += FRAME_NS;
        uint64_t now = now_ns();
        if (next > now) {
            struct timespec rest = {0, (long)(next - now)};
            nanosleep(&rest, NULL);
        }
    }
    printf("%d players\n", player_count);
    return ws_stack_free(stack) < 0;
}
