#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/data_dir.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char home[64];
static char error[1024];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    return remove(path);
}

static int set_up(void **state) {
    strcpy(home, "/tmp/leased-data-dir-XXXXXX");
    error[0] = '\0';
    return mkdtemp(home) == NULL ? -1 : 0;
}

static int tear_down(void **state) {
    return nftw(home, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *inside(const char *name) {
    static char path[4][256];
    static unsigned next;
    char *result = path[next++ % 4];
    snprintf(result, sizeof path[0], "%s/%s", home, name);
    return result;
}

static void assert_error_says(const char *text) {
    if (strstr(error, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error, text);
    }
}

static void write_file(const char *path, const char *text, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_not_equal(fd, -1);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

static struct data_dir *open_dir(const char *path) {
    struct data_dir *dir = NULL;
    enum status status = data_dir_open(path, &dir, error, sizeof error);
    if (status != STATUS_OK) {
        fail_msg("%s", error);
    }
    return dir;
}

/* Who a member is that was started with these flags. */
static struct identity identity_of(const char *name, const char *token, const char *peer_urls) {
    static struct options options;
    struct arena arena;
    struct identity identity;
    arena_init(&arena);
    memset(&options, 0, sizeof options);
    options.name = name;
    options.initial_cluster_token = token;
    assert_int_equal(url_list_parse(peer_urls, &arena, &options.initial_advertise_peer_urls, error,
                                    sizeof error),
                     STATUS_OK);
    identity_make(&identity, &options);
    arena_clear(&arena);
    return identity;
}

static struct identity some_identity(void) {
    return identity_of("node one", "token", "http://127.0.0.1:2380");
}

static void a_missing_directory_is_made_for_its_owner_alone(void **state) {
    struct data_dir *dir = open_dir(inside("a/b/c"));
    struct stat status;
    assert_int_equal(stat(inside("a/b/c"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(data_dir_raft_path(dir), &status), 0);
    assert_true(S_ISDIR(status.st_mode));
    assert_false(data_dir_is_open_to_others(dir));
    data_dir_close(dir);
}

static void the_path_is_absolute(void **state) {
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(home), 0);
    struct data_dir *dir = open_dir("relative");
    assert_string_equal(data_dir_path(dir), inside("relative"));
    data_dir_close(dir);
    assert_int_equal(chdir(before), 0);
}

static void a_directory_that_others_may_read_is_noticed(void **state) {
    assert_int_equal(mkdir(inside("d"), 0755), 0);
    assert_int_equal(chmod(inside("d"), 0755), 0);
    struct data_dir *dir = open_dir(inside("d"));
    assert_true(data_dir_is_open_to_others(dir));
    data_dir_close(dir);
}

static void a_second_process_is_told_who_holds_it(void **state) {
    struct data_dir *dir = open_dir(inside("d"));
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        struct data_dir *second = NULL;
        char pid[32];
        snprintf(pid, sizeof pid, "process %ld", (long)getppid());
        enum status status = data_dir_open(inside("d"), &second, error, sizeof error);
        _exit(status == STATUS_DATA_DIR_IN_USE && strstr(error, pid) != NULL ? 0 : 1);
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    data_dir_close(dir);
    data_dir_close(open_dir(inside("d"))); /* free again */
}

static void a_file_is_not_taken_for_a_directory(void **state) {
    struct data_dir *dir = NULL;
    write_file(inside("file"), "x", 1);
    assert_int_equal(data_dir_open(inside("file"), &dir, error, sizeof error), STATUS_IO);
    assert_error_says("is a file, not a directory");
    assert_int_equal(data_dir_open(inside("file/below"), &dir, error, sizeof error), STATUS_IO);
    assert_error_says("a part of the path is a file");
    assert_null(dir);
}

static void a_directory_without_the_right_to_write_is_refused(void **state) {
    assert_int_equal(mkdir(inside("d"), 0555), 0);
    assert_int_equal(chmod(home, 0755), 0);
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        enum { NOBODY = 65534 }; /* nothing is forbidden to root */
        if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0) {
            _exit(2);
        }
        struct data_dir *dir = NULL;
        enum status status = data_dir_open(inside("d"), &dir, error, sizeof error);
        _exit(status == STATUS_IO && strstr(error, "right to write there") != NULL ? 0 : 1);
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void a_place_that_cannot_hold_files_is_refused(void **state) {
    struct data_dir *dir = NULL;
    assert_int_equal(data_dir_open("/proc/self", &dir, error, sizeof error), STATUS_IO);
    assert_error_says("cannot write into the data directory");
    assert_int_equal(data_dir_open("/proc/leased/data", &dir, error, sizeof error), STATUS_IO);
    assert_error_says("cannot make the data directory");
    assert_int_equal(data_dir_open("", &dir, error, sizeof error), STATUS_INVALID);
}

static void data_of_etcd_is_told(void **state) {
    assert_int_equal(mkdir(inside("d"), 0700), 0);
    assert_int_equal(mkdir(inside("d/member"), 0700), 0);
    struct data_dir *dir = open_dir(inside("d"));
    assert_false(data_dir_has_etcd_data(dir));
    assert_int_equal(mkdir(inside("d/member/wal"), 0700), 0);
    assert_true(data_dir_has_etcd_data(dir));
    data_dir_close(dir);
}

static void an_identity_is_found_again_as_it_was_stored(void **state) {
    struct data_dir *dir = open_dir(inside("d"));
    struct identity stored = some_identity();
    struct identity loaded;
    assert_int_equal(data_dir_load_identity(dir, &loaded, error, sizeof error),
                     STATUS_KEY_NOT_FOUND);
    assert_int_equal(data_dir_store_identity(dir, &stored, error, sizeof error), STATUS_OK);
    assert_int_equal(data_dir_load_identity(dir, &loaded, error, sizeof error), STATUS_OK);
    assert_memory_equal(&stored, &loaded, sizeof stored);
    stored.is_joined = true;
    stored.data_dir_id = 1;
    assert_int_equal(data_dir_store_identity(dir, &stored, error, sizeof error), STATUS_OK);
    assert_int_equal(data_dir_load_identity(dir, &loaded, error, sizeof error), STATUS_OK);
    assert_memory_equal(&stored, &loaded, sizeof stored);
    assert_int_not_equal(access(inside("d/identity.new"), F_OK), 0);
    data_dir_close(dir);
}

static void data_without_an_identity_is_not_given_a_new_one(void **state) {
    struct data_dir *dir = open_dir(inside("d"));
    struct identity identity;
    write_file(inside("d/raft/metadata1"), "x", 1);
    assert_int_equal(data_dir_load_identity(dir, &identity, error, sizeof error), STATUS_CORRUPT);
    assert_error_says("missing although there is data");
    data_dir_close(dir);
}

static void every_changed_byte_of_an_identity_is_found(void **state) {
    struct identity identity = some_identity();
    identity.is_joined = true;
    identity.data_dir_id = UINT64_MAX;
    char text[IDENTITY_TEXT_SIZE_MAX];
    size_t size = identity_encode(&identity, text);
    struct identity decoded;
    assert_int_equal(identity_decode(bytes_of(text, size), &decoded), STATUS_OK);
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text[i] ^= (char)(1 << bit);
            assert_int_equal(identity_decode(bytes_of(text, size), &decoded), STATUS_CORRUPT);
            text[i] ^= (char)(1 << bit);
        }
    }
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(identity_decode(bytes_of(text, i), &decoded), STATUS_CORRUPT);
    }
}

static void a_corrupt_identity_is_reported_and_not_replaced(void **state) {
    struct data_dir *dir = open_dir(inside("d"));
    struct identity identity;
    write_file(inside("d/identity"), "leased-identity 1\n", 18);
    assert_int_equal(data_dir_load_identity(dir, &identity, error, sizeof error), STATUS_CORRUPT);
    assert_error_says("restore it from a backup");
    char large[2 * IDENTITY_TEXT_SIZE_MAX] = "";
    write_file(inside("d/identity"), large, sizeof large);
    assert_int_equal(data_dir_load_identity(dir, &identity, error, sizeof error), STATUS_CORRUPT);
    data_dir_close(dir);
}

static void ids_depend_on_token_and_peer_urls_and_not_on_their_order(void **state) {
    struct identity a = identity_of("n", "t", "http://a:1,http://b:1");
    struct identity b = identity_of("n", "t", "http://b:1,http://a:1");
    assert_true(a.member_id == b.member_id && a.cluster_id == b.cluster_id);
    b = identity_of("n", "t", "http://a:1");
    assert_true(a.member_id != b.member_id && a.cluster_id != b.cluster_id);
    b = identity_of("n", "u", "http://a:1,http://b:1");
    assert_true(a.member_id != b.member_id && a.cluster_id != b.cluster_id);
}

/* What release 0.2 makes of these flags. */
static void ids_of_earlier_releases_are_known(void **state) {
    struct options options = {
        .name = "node1", .initial_cluster_token = "etcd-cluster", .initial_cluster_state = "new"};
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(url_list_parse("http://127.0.0.1:2380", &arena,
                                    &options.initial_advertise_peer_urls, error, sizeof error),
                     STATUS_OK);
    struct identity now;
    struct identity legacy;
    identity_make(&now, &options);
    identity_make_legacy(&legacy, &options);
    assert_int_equal(legacy.member_id, UINT64_C(0x4798ca909f8e8f3e));
    assert_int_equal(legacy.cluster_id, UINT64_C(0x8660d79fd2250b82));
    assert_true(now.member_id != legacy.member_id && now.cluster_id != legacy.cluster_id);
    assert_true(identity_is_legacy(&legacy, &options));
    assert_false(identity_is_legacy(&now, &options));
    arena_clear(&arena);
}

int main(void) {
#define IN_A_HOME(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_A_HOME(a_missing_directory_is_made_for_its_owner_alone),
        IN_A_HOME(the_path_is_absolute),
        IN_A_HOME(a_directory_that_others_may_read_is_noticed),
        IN_A_HOME(a_second_process_is_told_who_holds_it),
        IN_A_HOME(a_file_is_not_taken_for_a_directory),
        IN_A_HOME(a_directory_without_the_right_to_write_is_refused),
        IN_A_HOME(a_place_that_cannot_hold_files_is_refused),
        IN_A_HOME(data_of_etcd_is_told),
        IN_A_HOME(an_identity_is_found_again_as_it_was_stored),
        IN_A_HOME(data_without_an_identity_is_not_given_a_new_one),
        IN_A_HOME(every_changed_byte_of_an_identity_is_found),
        IN_A_HOME(a_corrupt_identity_is_reported_and_not_replaced),
        IN_A_HOME(ids_depend_on_token_and_peer_urls_and_not_on_their_order),
        cmocka_unit_test(ids_of_earlier_releases_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
