#include "peers/peer_secret.h"

#include "tls/tls_crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHERS = S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH };

static enum status check_file(int fd, const char *path, char *out_error, size_t error_size) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        snprintf(out_error, error_size, "the peer secret file %s cannot be read: %s", path,
                 strerror(errno));
        return STATUS_IO;
    }
    if (!S_ISREG(info.st_mode)) {
        snprintf(out_error, error_size, "the peer secret file %s is not a regular file", path);
        return STATUS_INVALID;
    }
    if ((info.st_mode & OTHERS) != 0) {
        snprintf(out_error, error_size,
                 "the peer secret file %s is open to other users (mode %03o); allow its owner "
                 "alone: chmod 600 %s",
                 path, (unsigned)info.st_mode & 0777U, path);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

static ssize_t read_all(int fd, uint8_t *to, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, to + done, size - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static enum status read_secret(int fd, const char *path, struct buffer *out_secret, char *out_error,
                               size_t error_size) {
    /* Newlines at the end, and one byte more, to see that it is too long. */
    uint8_t bytes[PEER_SECRET_SIZE_MAX + 3];
    ssize_t n = read_all(fd, bytes, sizeof bytes);
    if (n < 0) {
        snprintf(out_error, error_size, "the peer secret file %s cannot be read: %s", path,
                 strerror(errno));
        return STATUS_IO;
    }
    size_t size = (size_t)n;
    while (size > 0 && (bytes[size - 1] == '\n' || bytes[size - 1] == '\r')) {
        size--;
    }
    enum status status = STATUS_OK;
    if (size < PEER_SECRET_SIZE_MIN || size > PEER_SECRET_SIZE_MAX) {
        snprintf(out_error, error_size,
                 "the peer secret in %s must have from %d to %d bytes and has %s%zu; "
                 "`head -c 32 /dev/urandom | base64` makes one",
                 path, PEER_SECRET_SIZE_MIN, PEER_SECRET_SIZE_MAX,
                 size > PEER_SECRET_SIZE_MAX ? "at least " : "", size);
        status = STATUS_INVALID;
    } else {
        buffer_init(out_secret);
        buffer_append(out_secret, bytes, size);
    }
    tls_wipe(bytes, sizeof bytes);
    return status;
}

enum status peer_secret_load(const char *path, struct buffer *out_secret, char *out_error,
                             size_t error_size) {
    /* Never waits for somebody to open the other end of a FIFO. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        snprintf(out_error, error_size, "the peer secret file %s cannot be opened: %s", path,
                 strerror(errno));
        return STATUS_IO;
    }
    enum status status = check_file(fd, path, out_error, error_size);
    if (status == STATUS_OK) {
        status = read_secret(fd, path, out_secret, out_error, error_size);
    }
    close(fd);
    return status;
}

void peer_secret_clear(struct buffer *secret) {
    if (secret->data != NULL) {
        tls_wipe(secret->data, secret->capacity);
    }
    buffer_clear(secret);
}
