/*
 * `lease snapshot save|restore`: a backup of etcd's own file format, streamed from a server; and
 * back into a data directory, which `leased restore` does.
 */
#include "cli/cli_commands.h"
#include "cli/command_list.h"
#include "client/lease_client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESTORE_WORDS_MAX = 64 };

/* ---- save -------------------------------------------------------------------------------------
 */

struct saving {
    uv_loop_t *loop;
    int file;
    bool is_over;
    bool is_failed;
    uint64_t size;
    uint64_t remaining;
    bool is_remaining_known;
};

static void finish(struct saving *saving, bool is_failed) {
    saving->is_over = true;
    saving->is_failed = saving->is_failed || is_failed;
    uv_stop(saving->loop);
}

static bool write_all(int file, const uint8_t *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(file, data, size);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        data += written;
        size -= (size_t)written;
    }
    return true;
}

static void on_part(struct grpc_client_call *call, struct bytes message) {
    struct saving *saving = *(struct saving **)grpc_client_call_room(call);
    if (saving->is_failed) {
        return;
    }
    Etcdserverpb__SnapshotResponse *part =
        etcdserverpb__snapshot_response__unpack(NULL, message.size, message.data);
    if (part == NULL) {
        fputs("lease: a part of the snapshot could not be decoded\n", stderr);
        saving->is_failed = true;
        return;
    }
    if (!write_all(saving->file, part->blob.data, part->blob.len)) {
        perror("lease: the snapshot cannot be written");
        saving->is_failed = true;
    }
    saving->size += part->blob.len;
    saving->remaining = part->remaining_bytes;
    saving->is_remaining_known = true;
    etcdserverpb__snapshot_response__free_unpacked(part, NULL);
}

static void on_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                   struct bytes message) {
    struct saving *saving = *(struct saving **)grpc_client_call_room(call);
    (void)message;
    if (code != GRPC_OK) {
        fprintf(stderr, "lease: %s\n", text);
    } else if (!saving->is_failed && (saving->size == 0 || saving->remaining != 0)) {
        fputs("lease: the snapshot is not whole\n", stderr);
        code = GRPC_INTERNAL;
    }
    finish(saving, code != GRPC_OK);
}

static bool fetch(struct cli *cli, struct lease_client *client, struct saving *saving) {
    static const struct grpc_client_method method = {
        .path = "/etcdserverpb.Maintenance/Snapshot", .on_message = on_part, .on_end = on_end};
    struct grpc_client_call *call = grpc_client_open(lease_client_connection(client), &method, 0);
    if (call == NULL) {
        fputs("lease: the connection was lost\n", stderr);
        return false;
    }
    *(struct saving **)grpc_client_call_room(call) = saving;
    grpc_client_call_reserve(call, 0);
    grpc_client_call_commit(call, 0);
    grpc_client_call_half_close(call);
    while (!saving->is_over) {
        uv_run(&cli->loop, UV_RUN_ONCE);
    }
    return !saving->is_failed;
}

/* Synced, so that what is called done is on disk, and renamed only when it is whole. */
static bool save_to(struct cli *cli, struct saving *saving, const char *part_path,
                    const char *path) {
    struct lease_client *client;
    if (!cli_connect(cli, &client)) {
        return false;
    }
    bool is_whole = fetch(cli, client, saving);
    cli_disconnect(cli, client);
    if (!is_whole) {
        return false;
    }
    if (fsync(saving->file) != 0 || rename(part_path, path) != 0) {
        perror("lease: the snapshot cannot be kept");
        return false;
    }
    return true;
}

static enum cli_exit run_save(struct cli *cli) {
    const char *path = cli->arguments.words[1];
    char part_path[PATH_MAX];
    struct saving saving = {.loop = &cli->loop};
    if ((size_t)snprintf(part_path, sizeof part_path, "%s.part", path) >= sizeof part_path) {
        return cli_usage(cli, "FILE is too long");
    }
    saving.file = open(part_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (saving.file < 0) {
        fprintf(stderr, "lease: %s cannot be written: %s\n", part_path, strerror(errno));
        return CLI_FAILED;
    }
    bool is_saved = save_to(cli, &saving, part_path, path);
    close(saving.file);
    if (!is_saved) {
        unlink(part_path);
        return CLI_FAILED;
    }
    if (cli->json) {
        printf("{\"size_bytes\":%" PRIu64 "}\n", saving.size);
    } else {
        printf("%s saved, %" PRIu64 " bytes\n", path, saving.size);
    }
    return CLI_OK;
}

const struct cli_command cli_command_snapshot_save = {
    .name = "snapshot save",
    .group = CLI_CLUSTER,
    .usage = "FILE",
    .help = "save all data of a server to a file, while it serves",
    .more = "The file has etcd's own format; leases, locks and users are in it too.\n",
    .examples = "lease snapshot save backup.db\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_save,
};

/* ---- restore ----------------------------------------------------------------------------------
 */

/* The server's program: beside this one, or wherever the shell finds it. */
static void leased_path(char path[PATH_MAX]) {
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 8);
    char *slash = NULL;
    if (size > 0) {
        path[size] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash == NULL) {
        strcpy(path, "leased");
        return;
    }
    strcpy(slash + 1, "leased");
    if (access(path, X_OK) != 0) {
        strcpy(path, "leased");
    }
}

static const struct option_entry restore_options[] = {
    {"--data-dir", 0, "FOLDER", "where the data goes; it must not exist"},
    {"--name", 0, "NAME", "of the member"},
    {"--initial-cluster", 0, "LIST", "all members, as etcd writes them"},
    {"--initial-advertise-peer-urls", 0, "URLS", "where the others reach it"},
    {"--initial-cluster-token", 0, "TOKEN", "of the new cluster"},
    {NULL, 0, NULL, NULL},
};

static enum cli_exit run_restore(struct cli *cli) {
    char path[PATH_MAX];
    const char *words[RESTORE_WORDS_MAX] = {"leased", "restore"};
    size_t n = 2;
    if (arguments_value(&cli->arguments, "--data-dir") == NULL) {
        return cli_usage(cli, "missing --data-dir FOLDER");
    }
    words[n++] = cli->arguments.words[1];
    for (const struct option_entry *each = restore_options; each->name != NULL; each++) {
        const char *value = arguments_value(&cli->arguments, each->name);
        if (value != NULL) {
            words[n++] = each->name;
            words[n++] = value;
        }
    }
    words[n] = NULL;
    leased_path(path);
    fflush(stdout);
    execvp(path, (char *const *)(uintptr_t)words);
    fprintf(stderr, "lease: %s cannot be run: %s\n", path, strerror(errno));
    return errno == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_RUN;
}

const struct cli_command cli_command_snapshot_restore = {
    .name = "snapshot restore",
    .group = CLI_CLUSTER,
    .usage = "FILE --data-dir FOLDER",
    .help = "make a data directory from a snapshot: runs `leased restore`",
    .examples = "lease snapshot restore backup.db --data-dir ./data\n",
    .options = restore_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_restore,
};
