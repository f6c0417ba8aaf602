/* The calls of raft/raft_files.h on a simulated disk. */
#include "disk_sim_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_ignored(const struct disk_sim *disk, enum disk_sim_call kind, const char *name) {
    return disk->ignored_kind == kind &&
           strncmp(name, disk->ignored_prefix, strlen(disk->ignored_prefix)) == 0;
}

/* What becomes of a call: with `error` 0 it happens; else as much as `happens` says. */
struct outcome {
    int error;
    bool is_stop; /* and any part of it may happen */
    bool is_partial;
};

static bool fault_strikes(struct disk_sim *disk, enum disk_sim_call kind) {
    if (disk->fault.kind != kind && disk->fault.kind != DISK_SIM_ANY_CALL) {
        return false;
    }
    if (disk->is_fault_lasting) {
        return true;
    }
    if (disk->fault.at == 0 || --disk->fault.at > 0) {
        return false;
    }
    disk->is_fault_lasting = disk->fault.is_lasting;
    return true;
}

static struct outcome count_call(struct disk_sim *disk, enum disk_sim_call kind) {
    disk->counts[kind]++;
    if (disk->is_stopped) {
        return (struct outcome){.error = EIO};
    }
    if (disk->stop_in > 0 && --disk->stop_in == 0) {
        disk->is_stopped = true;
        return (struct outcome){.error = EIO, .is_stop = true, .is_partial = true};
    }
    if (fault_strikes(disk, kind)) {
        return (struct outcome){.error = disk->fault.error, .is_partial = disk->fault.is_partial};
    }
    return (struct outcome){0};
}

static void note_fault(struct disk_sim *disk, struct outcome outcome, enum disk_sim_call kind,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

static void note_fault(struct disk_sim *disk, struct outcome outcome, enum disk_sim_call kind,
                       const char *format, ...) {
    if (outcome.error == 0 || (disk->is_stopped && !outcome.is_stop)) {
        return;
    }
    int n = snprintf(disk->fault_text, sizeof(disk->fault_text), "%s ", disk_sim_call_text(kind));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(disk->fault_text + n, sizeof(disk->fault_text) - (size_t)n, format, arguments);
    va_end(arguments);
}

/* A call without parts: after a stop it happened or not. */
static bool happens(struct disk_sim *disk, struct outcome outcome) {
    return outcome.error == 0 || (outcome.is_stop && disk_sim_random(disk, 2) == 0);
}

static struct disk_handle *find_handle(struct disk_sim *disk, int file) {
    for (size_t i = 0; i < disk->n_handles; i++) {
        if (disk->handles[i].file == file) {
            return &disk->handles[i];
        }
    }
    return NULL;
}

static const char *handle_name(struct disk_sim *disk, int file) {
    struct disk_handle *handle = find_handle(disk, file);
    return handle == NULL ? "(not open)" : handle->name;
}

/* --- the calls, each with the mutex held --- */

static void add_handle(struct disk_sim *disk, const char *name, enum raft_files_mode mode,
                       struct disk_node *node, int *out_file) {
    if (disk->n_handles == disk->handles_capacity) {
        disk->handles_capacity = disk->handles_capacity == 0 ? 8 : 2 * disk->handles_capacity;
        disk->handles = realloc(disk->handles, disk->handles_capacity * sizeof(struct disk_handle));
        if (disk->handles == NULL) {
            abort();
        }
    }
    struct disk_handle *handle = &disk->handles[disk->n_handles++];
    *handle =
        (struct disk_handle){.file = disk->next_file++, .mode = mode, .node = disk_node_ref(node)};
    snprintf(handle->name, sizeof(handle->name), "%s", name);
    *out_file = handle->file;
}

static int do_open(struct disk_sim *disk, const char *name, enum raft_files_mode mode,
                   int *out_file) {
    struct outcome outcome = count_call(disk, DISK_SIM_OPEN);
    note_fault(disk, outcome, DISK_SIM_OPEN, "%s", name);
    struct disk_node *node = disk_directory_find(&disk->directory, name);
    if (mode == RAFT_FILES_CREATE && node == NULL && happens(disk, outcome)) {
        if (strlen(name) >= DISK_SIM_NAME_SIZE) {
            return ENAMETOOLONG;
        }
        node = disk_node_create();
        disk_directory_link(&disk->directory, name, node);
        disk_node_unref(node); /* the name holds it */
        if (outcome.error == 0) {
            add_handle(disk, name, mode, node, out_file);
        }
        return outcome.error;
    }
    if (outcome.error != 0) {
        return outcome.error;
    }
    if (mode == RAFT_FILES_CREATE) {
        return EEXIST;
    }
    if (node == NULL) {
        return ENOENT;
    }
    add_handle(disk, name, mode, node, out_file);
    return 0;
}

static int do_close(struct disk_sim *disk, int file) {
    struct outcome outcome = count_call(disk, DISK_SIM_CLOSE);
    note_fault(disk, outcome, DISK_SIM_CLOSE, "%s", handle_name(disk, file));
    struct disk_handle *handle = find_handle(disk, file);
    if (handle == NULL) {
        return outcome.error != 0 ? outcome.error : EBADF;
    }
    /* As with close(2), the descriptor is gone even when it fails. */
    disk_node_unref(handle->node);
    *handle = disk->handles[--disk->n_handles];
    return outcome.error;
}

static int do_read(struct disk_sim *disk, int file, uint64_t offset, void *bytes, size_t size,
                   size_t *out_n) {
    struct outcome outcome = count_call(disk, DISK_SIM_READ);
    note_fault(disk, outcome, DISK_SIM_READ, "%s at %llu, %zu bytes", handle_name(disk, file),
               (unsigned long long)offset, size);
    if (outcome.error != 0) {
        return outcome.error;
    }
    struct disk_handle *handle = find_handle(disk, file);
    if (handle == NULL) {
        return EBADF;
    }
    uint64_t there = offset < handle->node->size ? handle->node->size - offset : 0;
    size_t n = there < size ? (size_t)there : size;
    if (n > 0) {
        memcpy(bytes, handle->node->bytes + offset, n);
    }
    *out_n = n;
    return 0;
}

static uint64_t room(const struct disk_sim *disk) {
    if (disk->capacity == UINT64_MAX) {
        return UINT64_MAX / 2;
    }
    uint64_t used = disk_sim_used(disk);
    return used < disk->capacity ? disk->capacity - used : 0;
}

/* How many of `size` bytes at `offset` find room. */
static size_t fitting(const struct disk_sim *disk, const struct disk_node *node, uint64_t offset,
                      size_t size) {
    uint64_t end_max = node->size + room(disk);
    if (offset + size <= end_max) {
        return size;
    }
    return end_max > offset ? (size_t)(end_max - offset) : 0;
}

static int do_write(struct disk_sim *disk, int file, uint64_t offset, const uint8_t *bytes,
                    size_t size) {
    struct outcome outcome = count_call(disk, DISK_SIM_WRITE);
    note_fault(disk, outcome, DISK_SIM_WRITE, "%s at %llu, %zu bytes", handle_name(disk, file),
               (unsigned long long)offset, size);
    struct disk_handle *handle = find_handle(disk, file);
    if (handle == NULL || handle->mode == RAFT_FILES_READ) {
        return outcome.error != 0 ? outcome.error : EBADF;
    }
    if (outcome.error != 0) {
        size = outcome.is_partial ? (size_t)disk_sim_random(disk, size + 1) : 0;
        disk_node_write(handle->node, offset, bytes, fitting(disk, handle->node, offset, size));
        return outcome.error;
    }
    size_t n = fitting(disk, handle->node, offset, size);
    disk_node_write(handle->node, offset, bytes, n);
    return n < size ? ENOSPC : 0;
}

static int do_sync(struct disk_sim *disk, int file) {
    struct outcome outcome = count_call(disk, DISK_SIM_SYNC);
    note_fault(disk, outcome, DISK_SIM_SYNC, "%s", handle_name(disk, file));
    struct disk_handle *handle = find_handle(disk, file);
    if (handle == NULL) {
        return outcome.error != 0 ? outcome.error : EBADF;
    }
    if (is_ignored(disk, DISK_SIM_SYNC, handle->name)) {
        return outcome.error;
    }
    if (happens(disk, outcome)) {
        disk_node_sync(handle->node);
    } else if (!disk->is_stopped) {
        disk_node_fail_sync(handle->node);
    }
    return outcome.error;
}

/* Nothing of it is safe; but what fails here is clean for the kernel, as after a sync that fails.
 */
static int do_write_back(struct disk_sim *disk, int file) {
    struct outcome outcome = count_call(disk, DISK_SIM_WRITE_BACK);
    note_fault(disk, outcome, DISK_SIM_WRITE_BACK, "%s", handle_name(disk, file));
    struct disk_handle *handle = find_handle(disk, file);
    if (handle == NULL) {
        return outcome.error != 0 ? outcome.error : EBADF;
    }
    if (!happens(disk, outcome) && !disk->is_stopped) {
        disk_node_fail_sync(handle->node);
    }
    return outcome.error;
}

static int do_allocate(struct disk_sim *disk, int file, uint64_t size) {
    struct outcome outcome = count_call(disk, DISK_SIM_ALLOCATE);
    note_fault(disk, outcome, DISK_SIM_ALLOCATE, "%s to %llu", handle_name(disk, file),
               (unsigned long long)size);
    struct disk_handle *handle = find_handle(disk, file);
    if (handle == NULL || handle->mode == RAFT_FILES_READ) {
        return outcome.error != 0 ? outcome.error : EBADF;
    }
    if (size <= handle->node->size || !happens(disk, outcome)) {
        return outcome.error;
    }
    if (size - handle->node->size > room(disk)) {
        return outcome.error != 0 ? outcome.error : ENOSPC;
    }
    disk_node_extend(handle->node, size);
    return outcome.error;
}

static int do_rename(struct disk_sim *disk, const char *from, const char *to) {
    struct outcome outcome = count_call(disk, DISK_SIM_RENAME);
    note_fault(disk, outcome, DISK_SIM_RENAME, "%s to %s", from, to);
    if (disk_directory_find(&disk->directory, from) == NULL) {
        return outcome.error != 0 ? outcome.error : ENOENT;
    }
    if (strlen(to) >= DISK_SIM_NAME_SIZE) {
        return ENAMETOOLONG;
    }
    if (happens(disk, outcome)) {
        disk_directory_rename(&disk->directory, from, to);
    }
    return outcome.error;
}

static int do_unlink(struct disk_sim *disk, const char *name) {
    struct outcome outcome = count_call(disk, DISK_SIM_UNLINK);
    note_fault(disk, outcome, DISK_SIM_UNLINK, "%s", name);
    if (disk_directory_find(&disk->directory, name) == NULL) {
        return outcome.error != 0 ? outcome.error : ENOENT;
    }
    if (happens(disk, outcome)) {
        disk_directory_unlink(&disk->directory, name);
    }
    return outcome.error;
}

static int do_sync_directory(struct disk_sim *disk) {
    struct outcome outcome = count_call(disk, DISK_SIM_SYNC_DIRECTORY);
    note_fault(disk, outcome, DISK_SIM_SYNC_DIRECTORY, "(of the directory)");
    if (is_ignored(disk, DISK_SIM_SYNC_DIRECTORY, "")) {
        return outcome.error;
    }
    if (happens(disk, outcome)) {
        disk_directory_sync(&disk->directory);
    }
    return outcome.error;
}

/* --- the table --- */

static int call_open(void *data, const char *name, enum raft_files_mode mode, int *out_file) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_open(disk, name, mode, out_file);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_close(void *data, int file) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_close(disk, file);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_size(void *data, int file, uint64_t *out_size) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    struct outcome outcome = count_call(disk, DISK_SIM_SIZE);
    note_fault(disk, outcome, DISK_SIM_SIZE, "%s", handle_name(disk, file));
    struct disk_handle *handle = find_handle(disk, file);
    int error = outcome.error != 0 ? outcome.error : handle == NULL ? EBADF : 0;
    if (error == 0) {
        *out_size = handle->node->size;
    }
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_read(void *data, int file, uint64_t offset, void *bytes, size_t size,
                     size_t *out_n) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_read(disk, file, offset, bytes, size, out_n);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_write(void *data, int file, uint64_t offset, const struct iovec *parts,
                      int n_parts) {
    struct disk_sim *disk = data;
    size_t size = 0;
    for (int i = 0; i < n_parts; i++) {
        size += parts[i].iov_len;
    }
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL) {
        abort();
    }
    size_t filled = 0;
    for (int i = 0; i < n_parts; i++) {
        if (parts[i].iov_len > 0) {
            memcpy(bytes + filled, parts[i].iov_base, parts[i].iov_len);
        }
        filled += parts[i].iov_len;
    }
    pthread_mutex_lock(&disk->mutex);
    int error = do_write(disk, file, offset, bytes, size);
    pthread_mutex_unlock(&disk->mutex);
    free(bytes);
    return error;
}

static int call_sync(void *data, int file) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_sync(disk, file);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_write_back(void *data, int file, uint64_t offset, uint64_t size) {
    struct disk_sim *disk = data;
    (void)offset;
    (void)size;
    pthread_mutex_lock(&disk->mutex);
    int error = do_write_back(disk, file);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_allocate(void *data, int file, uint64_t size) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_allocate(disk, file, size);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_rename(void *data, const char *from, const char *to) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_rename(disk, from, to);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_unlink(void *data, const char *name) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_unlink(disk, name);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

static int call_sync_directory(void *data) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    int error = do_sync_directory(disk);
    pthread_mutex_unlock(&disk->mutex);
    return error;
}

/* In any order: it begins anywhere. The names are copied, so that `found` may make calls. */
static int call_list(void *data, void (*found)(void *found_data, const char *name),
                     void *found_data) {
    struct disk_sim *disk = data;
    pthread_mutex_lock(&disk->mutex);
    struct outcome outcome = count_call(disk, DISK_SIM_LIST);
    note_fault(disk, outcome, DISK_SIM_LIST, "(of the directory)");
    size_t n = outcome.error == 0 ? disk->directory.current.n : 0;
    size_t first = n == 0 ? 0 : (size_t)disk_sim_random(disk, n);
    char(*names)[DISK_SIM_NAME_SIZE] = calloc(n + 1, DISK_SIM_NAME_SIZE);
    if (names == NULL) {
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(names[i], disk->directory.current.items[(first + i) % n].name, DISK_SIM_NAME_SIZE);
    }
    pthread_mutex_unlock(&disk->mutex);
    for (size_t i = 0; i < n; i++) {
        found(found_data, names[i]);
    }
    free(names);
    return outcome.error;
}

static const struct raft_files_calls calls = {
    .open = call_open,
    .close = call_close,
    .size = call_size,
    .read = call_read,
    .write = call_write,
    .sync = call_sync,
    .write_back = call_write_back,
    .allocate = call_allocate,
    .rename = call_rename,
    .unlink = call_unlink,
    .sync_directory = call_sync_directory,
    .list = call_list,
};

struct raft_files disk_sim_files(struct disk_sim *disk) {
    return (struct raft_files){.calls = &calls, .data = disk};
}
