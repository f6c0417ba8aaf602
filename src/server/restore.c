#include "server/restore.h"

#include "base/progress.h"
#include "doors/etcd/etcd_import.h"
#include "replication/join.h"
#include "replication/restored_data.h"
#include "server/data_dir.h"
#include "server/exit_code.h"
#include "server/identity.h"
#include "server/mapped_file.h"
#include "server/restore_options.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HASH_SIZE = 32,
    /* A database is a multiple of this long; behind it may be the hash. */
    SECTOR_SIZE = 512,
    HASH_STEP = 4 * 1024 * 1024,
    ERROR_SIZE = 2048
};
static const char unfinished_suffix[] = ".restoring";

struct restoring {
    struct restore_options options;
    struct bytes mapped;
    struct bytes database; /* without its hash */
    uint8_t hash[HASH_SIZE];
    uint8_t token_key[AUTH_TOKEN_KEY_SIZE];
    struct snapshot_target state;
    struct etcd_import_report report;
    struct identity identity;
    struct replication_member members[OPTIONS_MEMBERS_MAX];
    size_t n_members;
    char path[PATH_MAX];       /* of the directory to be */
    char unfinished[PATH_MAX]; /* where it is made */
    struct progress progress;
    char error[ERROR_SIZE];
};

__attribute__((format(printf, 3, 4))) static enum status
fail(struct restoring *restoring, enum status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(restoring->error, sizeof restoring->error, format, arguments);
    va_end(arguments);
    return status;
}

/* --- The file. --- */

static void hash_database(struct restoring *restoring) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    struct bytes database = restoring->database;
    if (context == NULL || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        abort();
    }
    for (size_t at = 0; at < database.size; at += HASH_STEP) {
        size_t size = database.size - at < HASH_STEP ? database.size - at : HASH_STEP;
        if (EVP_DigestUpdate(context, database.data + at, size) != 1) {
            abort();
        }
        progress_text(&restoring->progress, "checking the hash: %u %%",
                      (unsigned)(100 * (at / HASH_STEP) / (database.size / HASH_STEP + 1)));
    }
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context, restoring->hash, &size) != 1) {
        abort();
    }
    assert(size == HASH_SIZE);
    EVP_MD_CTX_free(context);
}

static enum status check_hash(struct restoring *restoring) {
    struct bytes mapped = restoring->mapped;
    const char *path = restoring->options.file;
    bool has_hash = mapped.size % SECTOR_SIZE == HASH_SIZE;
    restoring->database = bytes_of(mapped.data, mapped.size - (has_hash ? HASH_SIZE : 0));
    hash_database(restoring);
    if (restoring->options.is_hash_skipped) {
        return STATUS_OK;
    }
    if (!has_hash) {
        return fail(restoring, STATUS_CORRUPT,
                    "%s has no hash at its end, so it is cut off or a copy of a database file; "
                    "restore a copy with --skip-hash-check",
                    path);
    }
    if (memcmp(mapped.data + restoring->database.size, restoring->hash, HASH_SIZE) != 0) {
        return fail(restoring, STATUS_CORRUPT,
                    "%s is damaged: its hash is not the one at its end. Use another backup", path);
    }
    return STATUS_OK;
}

/* Equal on all members, which make it of the same file, and another one for each new cluster. It
 * is as secret as the file, which has the hashes of all passwords. */
static void make_token_key(struct restoring *restoring) {
    static const char purpose[] = "leased: key of tokens of a restored cluster";
    const char *token = restoring->options.member.initial_cluster_token;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned size = 0;
    if (context == NULL || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(context, purpose, sizeof purpose) != 1 ||
        EVP_DigestUpdate(context, restoring->hash, HASH_SIZE) != 1 ||
        EVP_DigestUpdate(context, token, strlen(token)) != 1 ||
        EVP_DigestFinal_ex(context, restoring->token_key, &size) != 1) {
        abort();
    }
    assert(size == AUTH_TOKEN_KEY_SIZE);
    EVP_MD_CTX_free(context);
}

static void tell_import(void *data, const char *what, size_t done, size_t total) {
    struct restoring *restoring = data;
    if (total == 0) {
        progress_text(&restoring->progress, "%s: %zu", what, done);
    } else {
        progress_text(&restoring->progress, "%s: %u %%", what, (unsigned)(done * 100 / total));
    }
}

static enum status import_file(struct restoring *restoring) {
    char reason[ERROR_SIZE / 2] = "";
    const struct etcd_import_options options = {
        .bump_revision = (int64_t)restoring->options.bump_revision,
        .is_marked_compacted = restoring->options.is_marked_compacted,
        .token_key = bytes_of(restoring->token_key, sizeof restoring->token_key),
        .progress = tell_import,
        .progress_data = restoring};
    restoring->state = (struct snapshot_target){.keys = key_store_create(),
                                                .leases = lease_table_create(NULL),
                                                .members = member_table_create(),
                                                .auth = auth_create()};
    enum status status = etcd_import(restoring->database, &options, &restoring->state,
                                     &restoring->report, reason, sizeof reason);
    return status == STATUS_OK
               ? STATUS_OK
               : fail(restoring, status == STATUS_MALFORMED ? STATUS_CORRUPT : status,
                      "%s cannot be restored: %s", restoring->options.file, reason);
}

/* --- The directory. --- */

/* It must not be there, or be empty. */
static enum status check_directory(struct restoring *restoring) {
    const char *path = restoring->options.member.data_dir;
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') {
        size--;
    }
    if (size + sizeof unfinished_suffix > sizeof restoring->path) {
        return fail(restoring, STATUS_INVALID, "--data-dir: the path is too long");
    }
    memcpy(restoring->path, path, size);
    restoring->path[size] = '\0';
    memcpy(restoring->unfinished, path, size);
    memcpy(restoring->unfinished + size, unfinished_suffix, sizeof unfinished_suffix);
    DIR *directory = opendir(restoring->path);
    if (directory == NULL) {
        return errno == ENOENT ? STATUS_OK
                               : fail(restoring, STATUS_INVALID, "cannot read --data-dir %s: %s",
                                      restoring->path, strerror(errno));
    }
    const struct dirent *entry = NULL;
    bool is_empty = true;
    while (is_empty && (entry = readdir(directory)) != NULL) {
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    closedir(directory);
    return is_empty ? STATUS_OK
                    : fail(restoring, STATUS_INVALID,
                           "--data-dir %s is not empty: a restore never changes data that is "
                           "there. Give a new directory",
                           restoring->path);
}

/* The regular files of a directory. */
static void remove_files(const char *path) {
    DIR *directory = opendir(path);
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
}

static void remove_unfinished(const struct restoring *restoring, struct data_dir *dir) {
    remove_files(data_dir_raft_path(dir));
    (void)rmdir(data_dir_raft_path(dir));
    remove_files(restoring->unfinished);
    (void)rmdir(restoring->unfinished);
}

static void show_progress(void *data, uint64_t written) {
    struct restoring *restoring = data;
    progress_text(&restoring->progress, "writing: %llu MiB",
                  (unsigned long long)(written / (1024 * 1024)));
}

static void name_members(struct restoring *restoring) {
    struct options *options = &restoring->options.member;
    identity_make(&restoring->identity, options);
    restoring->n_members = options->n_members;
    for (size_t i = 0; i < options->n_members; i++) {
        const struct options_member *member = &options->members[i];
        restoring->members[i] = (struct replication_member){
            .id = identity_member_id(options->initial_cluster_token, &member->peer_urls),
            .name = member->name,
            .address = url_address(&member->peer_urls.urls[0], &options->arena),
            .peer_urls = member->peer_urls.texts};
    }
    if (options->n_members == 0) {
        restoring->n_members = 1;
        restoring->members[0] =
            (struct replication_member){.id = restoring->identity.member_id,
                                        .name = options->name,
                                        .address = options->peer_address,
                                        .peer_urls = options->initial_advertise_peer_urls.texts};
    }
}

static enum status fill_directory(struct restoring *restoring, struct data_dir *dir) {
    /* One that was interrupted may have left something. */
    remove_files(data_dir_raft_path(dir));
    name_members(restoring);
    const struct restored_data data = {
        .members = restoring->members,
        .n_members = restoring->n_members,
        .token_hash = join_token_hash(restoring->options.member.initial_cluster_token),
        .state = &restoring->state,
        .progress = show_progress,
        .progress_data = restoring};
    enum status status = restored_data_write(data_dir_raft_path(dir), &data, restoring->error,
                                             sizeof restoring->error);
    return status == STATUS_OK ? data_dir_store_identity(dir, &restoring->identity,
                                                         restoring->error, sizeof restoring->error)
                               : status;
}

/* The new name is on disk. */
static int sync_parent(const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(parent, path, size);
    parent[size] = '\0';
    int fd = open(slash == NULL ? "."
                  : size == 0   ? "/"
                                : parent,
                  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return error;
}

static enum status write_directory(struct restoring *restoring) {
    struct data_dir *dir = NULL;
    enum status status =
        data_dir_open(restoring->unfinished, &dir, restoring->error, sizeof restoring->error);
    if (status != STATUS_OK) {
        return status;
    }
    status = fill_directory(restoring, dir);
    if (status == STATUS_OK && rename(restoring->unfinished, restoring->path) != 0) {
        status = fail(restoring, STATUS_IO,
                      "cannot name the finished directory %s: %s. Give a --data-dir that does not "
                      "exist yet, on a file system where this user may make directories",
                      restoring->path, strerror(errno));
    }
    if (status != STATUS_OK) {
        remove_unfinished(restoring, dir);
    }
    data_dir_close(dir);
    int error = status == STATUS_OK ? sync_parent(restoring->path) : 0;
    return error == 0
               ? status
               : fail(restoring, STATUS_IO, "cannot sync %s: %s", restoring->path, strerror(error));
}

/* --- The whole. --- */

static enum status run(struct restoring *restoring) {
    enum status status = check_directory(restoring);
    if (status == STATUS_OK) {
        status = mapped_file_open(restoring->options.file, &restoring->mapped, restoring->error,
                                  sizeof restoring->error);
    }
    if (status == STATUS_OK) {
        status = check_hash(restoring);
    }
    if (status == STATUS_OK) {
        make_token_key(restoring);
        status = import_file(restoring);
    }
    return status == STATUS_OK ? write_directory(restoring) : status;
}

static void print_result(const struct restoring *restoring) {
    const struct etcd_import_report *report = &restoring->report;
    printf("Restored %s: %zu keys (%zu versions), revision %lld, compacted revision %lld, %zu "
           "leases, %zu users, %zu roles, authentication %s\n",
           restoring->options.file, report->n_keys, report->n_records, (long long)report->revision,
           (long long)report->compacted_revision, report->n_leases, report->n_users,
           report->n_roles, report->is_auth_enabled ? "enabled" : "disabled");
    printf("Data directory: %s\n", restoring->path);
    if (report->n_detached > 0) {
        printf("Warning: the lease of %zu keys is not in the file; they have no lease now and stay "
               "until they are deleted\n",
               report->n_detached);
    }
    if (report->n_left_out > 0) {
        printf(
            "Warning: %zu keys of other protocols than etcd's are left out: etcd has changed the "
            "data since leased wrote it\n",
            report->n_left_out);
    }
}

static void clear(struct restoring *restoring) {
    auth_destroy(restoring->state.auth);
    member_table_destroy(restoring->state.members);
    lease_table_destroy(restoring->state.leases);
    key_store_destroy(restoring->state.keys);
    mapped_file_close(restoring->mapped);
    OPENSSL_cleanse(restoring->token_key, sizeof restoring->token_key);
    restore_options_clear(&restoring->options);
    free(restoring);
}

int restore_main(const struct door_list *doors, int argc, char **argv) {
    struct restoring *restoring = calloc(1, sizeof *restoring);
    if (restoring == NULL) {
        abort();
    }
    int code = EXIT_CODE_STOPPED;
    enum status status =
        restore_options_parse(&restoring->options, doors, argc, argv, restoring->error);
    if (status == STATUS_OK && restoring->options.is_help) {
        restore_options_print_help(stdout);
    } else {
        if (status == STATUS_OK) {
            progress_init(&restoring->progress, "");
            status = run(restoring);
            progress_end(&restoring->progress);
        }
        if (status == STATUS_OK) {
            print_result(restoring);
        } else {
            fprintf(stderr, "leased restore: %s\n", restoring->error);
            code = status == STATUS_INVALID ? EXIT_CODE_USAGE : (int)exit_code_of_status(status);
        }
    }
    clear(restoring);
    return code;
}
