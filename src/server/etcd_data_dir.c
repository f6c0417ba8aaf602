#include "server/etcd_data_dir.h"

#include "base/log.h"
#include "bolt/bolt_reader.h"
#include "doors/etcd/etcd_import.h"
#include "doors/etcd/etcd_stored.h"
#include "doors/etcd/etcd_wal.h"
#include "peers/peer_address.h"
#include "replication/restored_data.h"
#include "server/mapped_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REASON_SIZE = 512, PATH_SIZE = PATH_MAX + 64 };

struct take_over {
    struct data_dir *dir;
    struct arena arena;
    struct bytes log;
    struct bytes database;
    struct etcd_wal wal;
    uint8_t token_key[AUTH_TOKEN_KEY_SIZE];
    struct snapshot_target state;
    struct etcd_import_report report;
    struct replication_member members[MEMBERS_MAX];
    char unfinished[PATH_SIZE]; /* where raft's files are made */
    char *error;
    size_t error_size;
};

static const char *path_in(const struct take_over *take_over, const char *name,
                           char out_path[PATH_SIZE]) {
    snprintf(out_path, PATH_SIZE, "%s/%s", data_dir_path(take_over->dir), name);
    return out_path;
}

static enum status refuse(struct take_over *take_over, enum status status, const char *reason) {
    const char *path = data_dir_path(take_over->dir);
    snprintf(take_over->error, take_over->error_size,
             "%s holds data of etcd that cannot be taken over: %s. leased starts on a directory "
             "that etcdutl snapshot restore has made and etcd has not run on. Otherwise: etcdctl "
             "snapshot save FILE from the running etcd, then leased restore FILE --data-dir NEW",
             path, reason);
    return status;
}

static enum status refuse_errno(struct take_over *take_over, const char *what) {
    snprintf(take_over->error, take_over->error_size, "cannot %s in %s: %s", what,
             data_dir_path(take_over->dir), strerror(errno));
    return errno == ENOSPC || errno == EDQUOT ? STATUS_NO_SPACE : STATUS_IO;
}

/* --- etcd's files. --- */

/* A log that etcd has gone on with has further files; "0.tmp" is room for the next one. */
static enum status check_log_files(struct take_over *take_over) {
    char path[PATH_SIZE];
    DIR *directory = opendir(path_in(take_over, "member/wal", path));
    if (directory == NULL) {
        return refuse_errno(take_over, "read member/wal");
    }
    bool has_others = false;
    const struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        size_t size = strlen(entry->d_name);
        bool is_log = size > 4 && strcmp(entry->d_name + size - 4, ".wal") == 0;
        has_others |= is_log && strcmp(entry->d_name, ETCD_WAL_FIRST_NAME) != 0;
    }
    closedir(directory);
    return has_others
               ? refuse(take_over, STATUS_INVALID, "its log has several files, so etcd has run")
               : STATUS_OK;
}

/* etcd locks the files of its log while it runs. */
static enum status check_unused(struct take_over *take_over) {
    char path[PATH_SIZE];
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd =
        open(path_in(take_over, "member/wal/" ETCD_WAL_FIRST_NAME, path), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return refuse(take_over, STATUS_INVALID, "the first file of its log cannot be read");
    }
    bool is_used = fcntl(fd, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES);
    close(fd);
    return is_used ? refuse(take_over, STATUS_DATA_DIR_IN_USE, "etcd is running on it") : STATUS_OK;
}

static enum status read_log(struct take_over *take_over) {
    char path[PATH_SIZE];
    char reason[REASON_SIZE] = "";
    enum status status =
        mapped_file_open(path_in(take_over, "member/wal/" ETCD_WAL_FIRST_NAME, path),
                         &take_over->log, reason, sizeof reason);
    if (status == STATUS_OK) {
        status = etcd_wal_read(take_over->log, &take_over->arena, &take_over->wal, reason,
                               sizeof reason);
    }
    return status == STATUS_OK ? STATUS_OK : refuse(take_over, status, reason);
}

/* --- The state. --- */

static bool digest_bucket(EVP_MD_CTX *context, const struct bolt_file *file, const char *name) {
    struct bolt_bucket bucket;
    struct bolt_cursor cursor;
    struct bytes key;
    struct bytes value;
    bool is_bucket = false;
    enum status status = bolt_bucket_open(file, name, &bucket);
    if (status != STATUS_OK) {
        return status == STATUS_KEY_NOT_FOUND;
    }
    bolt_cursor_init(&cursor, file, &bucket);
    while (bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
        const uint64_t sizes[] = {key.size, value.size};
        if (EVP_DigestUpdate(context, sizes, sizeof sizes) != 1 ||
            EVP_DigestUpdate(context, key.data, key.size) != 1 ||
            EVP_DigestUpdate(context, value.data, value.size) != 1) {
            abort();
        }
    }
    return cursor.status == STATUS_OK;
}

/* Equal on all members, which make it of what is equal in their databases: users with the hashes of
 * their passwords, which are as secret, and the new cluster's id. The files themselves may differ.
 */
static bool make_token_key(struct take_over *take_over) {
    static const char purpose[] = "leased: key of tokens of a cluster that etcdutl restored";
    static const char *const buckets[] = {ETCD_BUCKET_AUTH, ETCD_BUCKET_ROLES, ETCD_BUCKET_USERS};
    struct bolt_file file;
    unsigned size = 0;
    if (bolt_file_open(&file, take_over->database) != STATUS_OK) {
        return true; /* etcd_import() says what is wrong */
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context == NULL || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(context, purpose, sizeof purpose) != 1 ||
        EVP_DigestUpdate(context, &take_over->wal.cluster_id, sizeof take_over->wal.cluster_id) !=
            1) {
        abort();
    }
    bool is_sound = true;
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0] && is_sound; i++) {
        is_sound = digest_bucket(context, &file, buckets[i]);
    }
    if (EVP_DigestFinal_ex(context, take_over->token_key, &size) != 1) {
        abort();
    }
    assert(size == AUTH_TOKEN_KEY_SIZE);
    EVP_MD_CTX_free(context);
    return is_sound;
}

static enum status import_database(struct take_over *take_over) {
    char path[PATH_SIZE];
    char reason[REASON_SIZE] = "";
    enum status status = mapped_file_open(path_in(take_over, "member/snap/db", path),
                                          &take_over->database, reason, sizeof reason);
    if (status != STATUS_OK) {
        return refuse(take_over, status, reason);
    }
    if (!make_token_key(take_over)) {
        return refuse(take_over, STATUS_CORRUPT, "member/snap/db: its users are damaged");
    }
    const struct etcd_import_options options = {
        .token_key = bytes_of(take_over->token_key, sizeof take_over->token_key)};
    take_over->state = (struct snapshot_target){.keys = key_store_create(),
                                                .leases = lease_table_create(NULL),
                                                .members = member_table_create(),
                                                .auth = auth_create()};
    status = etcd_import(take_over->database, &options, &take_over->state, &take_over->report,
                         reason, sizeof reason);
    if (status == STATUS_OK) {
        return STATUS_OK;
    }
    char what[REASON_SIZE + 32];
    snprintf(what, sizeof what, "member/snap/db: %s", reason);
    return refuse(take_over, status == STATUS_MALFORMED ? STATUS_CORRUPT : status, what);
}

/* --- Our files. --- */

static const char *text_of(struct take_over *take_over, struct bytes bytes) {
    char *text = arena_alloc(&take_over->arena, bytes.size + 1);
    if (bytes.size > 0) {
        memcpy(text, bytes.data, bytes.size);
    }
    text[bytes.size] = '\0';
    return text;
}

static enum status name_members(struct take_over *take_over) {
    for (size_t i = 0; i < take_over->wal.n_members; i++) {
        const struct member_facts *facts = &take_over->wal.members[i];
        char address[PEER_ADDRESS_SIZE_MAX + 1];
        const char **urls = arena_calloc(&take_over->arena, facts->n_peer_urls + 1, sizeof *urls);
        for (size_t u = 0; u < facts->n_peer_urls; u++) {
            urls[u] = text_of(take_over, facts->peer_urls[u]);
        }
        if (!peer_address_of_url(urls[0], address)) {
            return refuse(take_over, STATUS_INVALID, "the URL of a member cannot be used");
        }
        take_over->members[i] =
            (struct replication_member){.id = facts->id,
                                        .name = text_of(take_over, facts->name),
                                        .address = text_of(take_over, bytes_from_text(address)),
                                        .peer_urls = urls};
    }
    return STATUS_OK;
}

/* Our own, of a take-over that was interrupted. */
static void remove_unfinished(const struct take_over *take_over) {
    DIR *directory = opendir(take_over->unfinished);
    if (directory == NULL) {
        return;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    closedir(directory);
    (void)rmdir(take_over->unfinished);
}

static int sync_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd < 0 ? -1 : fsync(fd);
    int number = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = number;
    return result;
}

/* Raft's files appear as a whole: a directory with only some of them would be taken for a member
 * that has run. */
static enum status write_files(struct take_over *take_over) {
    const struct restored_data data = {.members = take_over->members,
                                       .n_members = take_over->wal.n_members,
                                       .state = &take_over->state};
    remove_unfinished(take_over);
    if (mkdir(take_over->unfinished, 0700) != 0) {
        return refuse_errno(take_over, "make a directory");
    }
    enum status status =
        restored_data_write(take_over->unfinished, &data, take_over->error, take_over->error_size);
    if (status == STATUS_OK &&
        (rename(take_over->unfinished, data_dir_raft_path(take_over->dir)) != 0 ||
         sync_directory(data_dir_path(take_over->dir)) != 0)) {
        status = refuse_errno(take_over, "name the finished files");
    }
    if (status != STATUS_OK) {
        remove_unfinished(take_over);
    }
    return status;
}

/* --- The whole. --- */

static enum status take_over_files(struct take_over *take_over) {
    enum status status = import_database(take_over);
    if (status == STATUS_OK) {
        status = name_members(take_over);
    }
    if (status == STATUS_OK) {
        status = write_files(take_over);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct etcd_import_report *report = &take_over->report;
    log_info("took over the data that etcdutl snapshot restore made",
             LOG_TEXT("path", data_dir_path(take_over->dir)),
             LOG_NUMBER("members", take_over->wal.n_members), LOG_NUMBER("keys", report->n_keys),
             LOG_NUMBER("revision", (uint64_t)report->revision),
             LOG_NUMBER("leases", report->n_leases), LOG_NUMBER("users", report->n_users));
    if (report->n_left_out > 0 || report->n_detached > 0) {
        log_warning("not all of the data could be kept",
                    LOG_NUMBER("keys of other protocols left out", report->n_left_out),
                    LOG_NUMBER("keys whose lease is not in the file", report->n_detached));
    }
    return STATUS_OK;
}

static void clear(struct take_over *take_over) {
    auth_destroy(take_over->state.auth);
    member_table_destroy(take_over->state.members);
    lease_table_destroy(take_over->state.leases);
    key_store_destroy(take_over->state.keys);
    mapped_file_close(take_over->database);
    mapped_file_close(take_over->log);
    arena_clear(&take_over->arena);
    OPENSSL_cleanse(take_over->token_key, sizeof take_over->token_key);
    free(take_over);
}

enum status etcd_data_dir_take_over(struct data_dir *dir, const struct options *options,
                                    struct identity *out_identity, char *out_error,
                                    size_t error_size) {
    struct take_over *take_over = calloc(1, sizeof *take_over);
    if (take_over == NULL) {
        abort();
    }
    take_over->dir = dir;
    take_over->error = out_error;
    take_over->error_size = error_size;
    arena_init(&take_over->arena);
    path_in(take_over, "raft.taking-over", take_over->unfinished);
    enum status status = check_log_files(take_over);
    if (status == STATUS_OK) {
        status = check_unused(take_over);
    }
    if (status == STATUS_OK) {
        status = read_log(take_over);
    }
    /* Interrupted before the identity was stored: nothing but that is missing. */
    if (status == STATUS_OK && !data_dir_has_log(dir)) {
        status = take_over_files(take_over);
    }
    if (status == STATUS_OK) {
        struct identity identity = {.cluster_id = take_over->wal.cluster_id,
                                    .member_id = take_over->wal.member_id};
        memcpy(identity.name, options->name, strlen(options->name) + 1);
        *out_identity = identity;
    } else {
        (void)rmdir(data_dir_raft_path(dir)); /* made for this; etcd's directory stays as it was */
    }
    clear(take_over);
    return status;
}
