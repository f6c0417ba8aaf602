#include "server/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *message) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* A path, or an abstract name that begins with @. */
    if (path == NULL || (path[0] != '/' && path[0] != '@') || path[1] == '\0' ||
        strlen(path) >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, path, strlen(path));
    if (address.sun_path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return;
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    ssize_t sent =
        sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    (void)sent;
    close(fd);
}

uint64_t notify_watchdog_interval_ms(void) {
    const char *limit = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    if (limit == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid())) {
        return 0;
    }
    uint64_t limit_us = strtoull(limit, NULL, 10);
    uint64_t interval_ms = limit_us / 2000;
    return limit_us > 0 && interval_ms == 0 ? 1 : interval_ms;
}
