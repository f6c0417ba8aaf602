/* Maintenance.Snapshot: the whole state in blobs, then its SHA-256. What is in it is our own
 * format, not etcd's database file: `etcdctl snapshot save` stores and checks it, `etcdctl snapshot
 * restore` cannot read it. */
#include "doors/etcd/etcd_call.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>

enum {
    BLOB_SIZE = 64 * 1024,
    /* etcdctl takes a file for whole when its size is a multiple of this plus a hash. */
    SECTOR_SIZE = 512,
    HASH_SIZE = 32
};

struct snapshot_stream {
    struct grpc_call *call; /* NULL: the client went away */
    struct etcd_door *door;
    struct service_snapshot snapshot;
    struct buffer bytes;
    size_t sent;
    EVP_MD_CTX *hash;
    bool is_ready;
    bool finished;
};

static void stream_destroy(struct snapshot_stream *stream) {
    stream->door->n_snapshots--;
    EVP_MD_CTX_free(stream->hash);
    buffer_clear(&stream->bytes);
    free(stream);
}

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
    stream->finished = true;
    etcd_error_finish(stream->call, etcd_error_of(status));
}

static void send_hash(struct snapshot_stream *stream) {
    uint8_t hash[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (EVP_DigestFinal_ex(stream->hash, hash, &size) != 1) {
        fail(stream, STATUS_NO_MEMORY);
        return;
    }
    assert(size == HASH_SIZE);
    send_blob(stream, bytes_of(hash, size), 0);
    stream->finished = true;
    grpc_call_finish(stream->call, GRPC_OK, NULL);
}

/* Sends as much as the client takes. */
static void pump(struct snapshot_stream *stream) {
    while (!stream->finished && grpc_call_is_writable(stream->call)) {
        size_t left = stream->bytes.size - stream->sent;
        if (left == 0) {
            send_hash(stream);
            return;
        }
        size_t size = left < BLOB_SIZE ? left : BLOB_SIZE;
        struct bytes blob = bytes_of(stream->bytes.data + stream->sent, size);
        if (EVP_DigestUpdate(stream->hash, blob.data, blob.size) != 1) {
            fail(stream, STATUS_NO_MEMORY);
            return;
        }
        stream->sent += size;
        send_blob(stream, blob, left - size);
    }
}

static void pad_to_sectors(struct buffer *buffer) {
    size_t missing = (SECTOR_SIZE - buffer->size % SECTOR_SIZE) % SECTOR_SIZE;
    memset(buffer_reserve(buffer, missing), 0, missing);
    buffer->size += missing;
}

static void on_snapshot(struct service_snapshot *snapshot, enum status status,
                        struct buffer *bytes) {
    struct snapshot_stream *stream = list_entry(snapshot, struct snapshot_stream, snapshot);
    if (status == STATUS_OK) {
        /* The bytes change hands. */
        stream->bytes = *bytes;
        buffer_init(bytes);
    }
    if (stream->call == NULL) {
        stream_destroy(stream);
        return;
    }
    stream->is_ready = true;
    if (status != STATUS_OK) {
        fail(stream, status);
        return;
    }
    pad_to_sectors(&stream->bytes);
    pump(stream);
}

static void on_message(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    struct etcd_door *door = etcd_door_of(call);
    if (door->n_snapshots >= door->options.snapshots_max) {
        etcd_error_finish(call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
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
    stream->snapshot.done = on_snapshot;
    buffer_init(&stream->bytes);
    door->n_snapshots++;
    grpc_call_set_data(call, stream);
    service_snapshot(door->service, etcd_caller(call), &stream->snapshot);
}

static void on_writable(struct grpc_call *call) {
    struct snapshot_stream *stream = grpc_call_data(call);
    if (stream != NULL && stream->is_ready) {
        pump(stream);
    }
}

static void on_close(struct grpc_call *call) {
    struct snapshot_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    stream->call = NULL;
    if (stream->is_ready) {
        stream_destroy(stream);
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
