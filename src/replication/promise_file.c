#include "replication/promise_file.h"

#include "base/buffer.h"
#include "base/crc32.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char FILE_NAME[] = "promise";
static const char NEW_NAME[] = "promise.new";
static const char MAGIC[8] = {'l', 's', 'p', 'r', 'o', 'm', 'i', '1'};
enum { FILE_SIZE = 16, ROUND_MS = 1000 };

static void encode(struct buffer *buffer, uint32_t longest_ms) {
    buffer_append(buffer, MAGIC, sizeof MAGIC);
    buffer_put_u32(buffer, longest_ms);
    buffer_put_u32(buffer, crc32c(0, buffer->data, buffer->size));
}

/* Written beside, synced and renamed: after a crash it is the old one or the new one. */
static int store(struct promise_file *file, uint32_t longest_ms) {
    const struct raft_files_calls *calls = file->files.calls;
    void *data = file->files.data;
    struct buffer buffer;
    int handle = -1;
    int error = calls->unlink(data, NEW_NAME);
    if (error != 0 && error != ENOENT) {
        return error;
    }
    error = calls->open(data, NEW_NAME, RAFT_FILES_CREATE, &handle);
    if (error != 0) {
        return error;
    }
    buffer_init(&buffer);
    encode(&buffer, longest_ms);
    struct iovec part = {.iov_base = buffer.data, .iov_len = buffer.size};
    error = calls->write(data, handle, 0, &part, 1);
    if (error == 0) {
        error = calls->sync(data, handle);
    }
    int close_error = calls->close(data, handle);
    buffer_clear(&buffer);
    if (error == 0) {
        error = close_error;
    }
    if (error == 0) {
        error = calls->rename(data, NEW_NAME, FILE_NAME);
    }
    if (error == 0) {
        error = calls->sync_directory(data);
    }
    if (error == 0) {
        file->longest_ms = longest_ms;
    }
    return error;
}

static enum status load(struct promise_file *file, int handle) {
    uint8_t bytes[FILE_SIZE + 1];
    size_t n = 0;
    if (file->files.calls->read(file->files.data, handle, 0, bytes, sizeof bytes, &n) != 0) {
        return STATUS_IO;
    }
    struct reader reader;
    reader_init(&reader, bytes_of(bytes, n));
    if (n != FILE_SIZE || memcmp(bytes, MAGIC, sizeof MAGIC) != 0) {
        return STATUS_CORRUPT;
    }
    reader.position = sizeof MAGIC;
    uint32_t longest_ms = reader_get_u32(&reader);
    if (reader_get_u32(&reader) != crc32c(0, bytes, sizeof MAGIC + sizeof longest_ms) ||
        longest_ms > PROMISE_MS_MAX) {
        return STATUS_CORRUPT;
    }
    file->longest_ms = longest_ms;
    return STATUS_OK;
}

enum status promise_file_open(struct promise_file *file, const struct raft_files *files,
                              uint32_t initial_ms, uint64_t now_ms, char *out_error,
                              size_t error_size) {
    *file = (struct promise_file){.files = *files, .own_ms = initial_ms};
    int handle = -1;
    int error = files->calls->open(files->data, FILE_NAME, RAFT_FILES_READ, &handle);
    enum status status = STATUS_OK;
    if (error == 0) {
        status = load(file, handle);
        (void)files->calls->close(files->data, handle);
        if (status == STATUS_CORRUPT) {
            /* Too long a wait does no harm. */
            error = store(file, PROMISE_MS_MAX);
            status = STATUS_OK;
        }
    } else if (error == ENOENT) {
        error = store(file, initial_ms);
    }
    if (error == 0 && status == STATUS_OK) {
        file->until_ms = now_ms + file->longest_ms + 1; /* it may have been given just now */
        return STATUS_OK;
    }
    snprintf(out_error, error_size,
             "the file \"%s\" in the data directory cannot be read or written: %s. Check the disk "
             "and the permissions, then start again.",
             FILE_NAME, strerror(error != 0 ? error : EIO));
    return error == ENOSPC ? STATUS_NO_SPACE : STATUS_IO;
}

static uint32_t rounded(const struct promise_file *file, uint32_t promise_ms) {
    if (promise_ms <= file->own_ms) {
        return file->own_ms;
    }
    return (promise_ms + ROUND_MS - 1) / ROUND_MS * ROUND_MS;
}

int promise_file_note(struct promise_file *file, uint32_t promise_ms, uint64_t now_ms) {
    promise_ms = rounded(file, promise_ms);
    if (promise_ms == file->longest_ms) {
        file->until_ms = now_ms + promise_ms + 1;
        return 0;
    }
    if (promise_ms < file->longest_ms && now_ms < file->until_ms) {
        return 0; /* a longer one still stands */
    }
    int error = store(file, promise_ms);
    if (error == 0) {
        file->until_ms = now_ms + promise_ms + 1;
    }
    return error;
}
