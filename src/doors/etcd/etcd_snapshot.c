/* Maintenance.Snapshot: the whole state as a file of etcd's database (etcd_backup.h) in blobs, then
 * its SHA-256. A worker makes it in parts, as fast as the client takes them. */
#include "doors/etcd/etcd_backup.h"
#include "doors/etcd/etcd_call.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>

enum { BLOB_SIZE = 64 * 1024, HASH_SIZE = 32 };

struct snapshot_stream {
    struct grpc_call *call; /* NULL: the client went away */
    struct etcd_door *door;
    struct service_scan scan;
    struct etcd_backup *backup; /* NULL: not measured yet */
    struct buffer part;
    size_t size; /* of the whole */
    size_t sent;
    EVP_MD_CTX *hash;
    bool has_failed;
};

static struct snapshot_stream *stream_of(struct service_scan *scan) {
    return list_entry(scan, struct snapshot_stream, scan);
}

static void stream_destroy(struct snapshot_stream *stream) {
    if (stream->call != NULL) {
        grpc_call_set_data(stream->call, NULL);
    }
    EVP_MD_CTX_free(stream->hash);
    buffer_clear(&stream->part);
    free(stream);
}

static void stream_end(struct snapshot_stream *stream) {
    /* It reads the view. */
    if (stream->scan.private.state != SCAN_RUNNING) {
        etcd_backup_destroy(stream->backup);
        stream->backup = NULL;
    }
    if (service_scan_end(&stream->scan)) {
        stream_destroy(stream);
    }
}

/* --- The worker. --- */

static void run(struct service_scan *scan) {
    struct snapshot_stream *stream = stream_of(scan);
    struct buffer *part = &stream->part;
    if (stream->backup == NULL) {
        stream->backup = etcd_backup_create(scan->view);
        stream->size = etcd_backup_size(stream->backup);
    }
    part->size = 0;
    bool has_more = etcd_backup_next(stream->backup, part);
    assert(has_more || stream->sent + part->size == stream->size);
    stream->has_failed = EVP_DigestUpdate(stream->hash, part->data, part->size) != 1;
}

/* --- The loop. --- */

static void send_blob(struct snapshot_stream *stream, struct bytes blob, size_t remaining) {
    static const char version[] = ETCD_VERSION;
    struct bytes version_bytes = bytes_from_text(version);
    size_t size =
        pb_uint64_size(2, remaining) + pb_bytes_size(3, blob) + pb_bytes_size(4, version_bytes);
    struct pb_writer writer;
    if (etcd_answer_begin(stream->call, size, &writer)) {
        pb_write_uint64(&writer, 2, remaining);
        pb_write_bytes(&writer, 3, blob);
        pb_write_bytes(&writer, 4, version_bytes);
        etcd_answer_end(stream->call, &writer);
    }
}

static void fail(struct snapshot_stream *stream, enum status status) {
    if (stream->call != NULL) {
        etcd_error_finish(stream->call, etcd_error_of(status));
    }
    stream_end(stream);
}

static void finish(struct snapshot_stream *stream) {
    uint8_t hash[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (EVP_DigestFinal_ex(stream->hash, hash, &size) != 1) {
        fail(stream, STATUS_NO_MEMORY);
        return;
    }
    assert(size == HASH_SIZE);
    send_blob(stream, bytes_of(hash, size), 0);
    grpc_call_finish(stream->call, GRPC_OK, NULL);
    stream_end(stream);
}

static void send_part(struct snapshot_stream *stream) {
    size_t at = 0;
    while (at < stream->part.size) {
        size_t left = stream->part.size - at;
        size_t size = left < BLOB_SIZE ? left : BLOB_SIZE;
        stream->sent += size;
        send_blob(stream, bytes_of(stream->part.data + at, size), stream->size - stream->sent);
        at += size;
    }
}

static void ran(struct service_scan *scan) {
    struct snapshot_stream *stream = stream_of(scan);
    if (stream->call == NULL) {
        stream_end(stream);
        return;
    }
    if (stream->has_failed) {
        fail(stream, STATUS_NO_MEMORY);
        return;
    }
    send_part(stream);
    if (stream->sent == stream->size) {
        finish(stream);
    } else if (grpc_call_is_writable(stream->call)) {
        service_scan_continue(scan);
    }
}

static void revoked(struct service_scan *scan, enum status status) {
    fail(stream_of(scan), status);
}

static void on_message(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    if (etcd_stream_refused(call)) {
        return;
    }
    struct etcd_door *door = etcd_door_of(call);
    struct snapshot_stream *stream = calloc(1, sizeof *stream);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (stream == NULL || hash == NULL || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(hash);
        free(stream);
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    stream->call = call;
    stream->door = door;
    stream->hash = hash;
    buffer_init(&stream->part);
    stream->scan =
        (struct service_scan){.run = run, .ran = ran, .revoked = revoked, .is_whole = true};
    grpc_call_set_data(call, stream);
    enum status status =
        service_scan_start(door->service, etcd_caller(call), &stream->scan, NULL, 0);
    if (status != STATUS_PENDING) {
        etcd_error_finish(call, etcd_error_of(status));
        stream_destroy(stream);
    }
}

static void on_writable(struct grpc_call *call) {
    struct snapshot_stream *stream = grpc_call_data(call);
    if (stream != NULL && stream->scan.private.state == SCAN_IDLE) {
        service_scan_continue(&stream->scan);
    }
}

static void on_close(struct grpc_call *call) {
    struct snapshot_stream *stream = grpc_call_data(call);
    if (stream != NULL) {
        stream->call = NULL;
        stream_end(stream);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Maintenance/Snapshot",
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_message,
     .on_writable = on_writable,
     .on_close = on_close},
};
const struct etcd_methods etcd_snapshot_methods = {methods, sizeof methods / sizeof methods[0]};
