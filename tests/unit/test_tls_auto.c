/* Certificates that a node makes for itself. */
#include "tls/tls_auto.h"
#include "tls_pair_fixture.h"

#include <sys/stat.h>

static const char *const hosts[] = {"127.0.0.1", "::1", "node.example"};
enum { N_HOSTS = sizeof hosts / sizeof hosts[0], CONTENT_SIZE = 8192 };

static char fixtures[TLS_PATH_SIZE];
static char folder[TLS_PATH_SIZE];
static struct tls_auto_files made;

static enum status make(void) {
    char error[512] = "";
    snprintf(fixtures, sizeof fixtures, "%.80s/fixtures", tls_folder);
    snprintf(folder, sizeof folder, "%.100s/client", fixtures);
    return tls_auto_certificate(folder, hosts, N_HOSTS, &made, error, sizeof error);
}

static void read_file(const char *path, char out_content[CONTENT_SIZE]) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(out_content, 1, CONTENT_SIZE - 1, file);
    out_content[size] = '\0';
    fclose(file);
}

static void remove_made(void) {
    unlink(made.cert_file);
    unlink(made.key_file);
    rmdir(folder);
    rmdir(fixtures);
}

static void a_pair_is_made_once_and_kept(void **state) {
    char first[CONTENT_SIZE];
    char second[CONTENT_SIZE];
    struct stat info;
    assert_int_equal(make(), STATUS_OK);
    assert_int_equal(stat(made.key_file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    read_file(made.cert_file, first);
    assert_int_equal(make(), STATUS_OK);
    read_file(made.cert_file, second);
    assert_string_equal(first, second);
    remove_made();
}

static void who_has_the_file_can_verify_the_node(void **state) {
    assert_int_equal(make(), STATUS_OK);
    const struct tls_options server = {
        .cert_file = made.cert_file, .key_file = made.key_file, .verify = TLS_VERIFY_SERVER};
    const struct tls_options client = {.is_client = true, .ca_file = made.cert_file};
    use_options(&sides[ACCEPTING], &server);
    use_options(&sides[CONNECTING], &client);
    for (size_t i = 0; i < N_HOSTS; i++) {
        connect_both(hosts[i]);
    }
    begin("other.example");
    carry_all(SIZE_MAX);
    assert_int_equal(tls_stream_failure(sides[CONNECTING].stream), TLS_FAILURE_WRONG_HOST);
    remove_made();
}

/* Members that each made their own: encrypted, and nothing is proven. */
static void two_such_nodes_can_speak_without_verification(void **state) {
    assert_int_equal(make(), STATUS_OK);
    const struct tls_options either = {
        .cert_file = made.cert_file, .key_file = made.key_file, .verify = TLS_VERIFY_NONE};
    use_options(&sides[ACCEPTING], &either);
    use_options(&sides[CONNECTING], &either);
    connect_both("whoever.example");
    remove_made();
}

static void assert_replaced(const char *path) {
    char before[CONTENT_SIZE];
    char after[CONTENT_SIZE];
    read_file(path, before);
    assert_int_equal(make(), STATUS_OK);
    read_file(path, after);
    assert_string_not_equal(before, after);
    const struct tls_options options = {
        .cert_file = made.cert_file, .key_file = made.key_file, .verify = TLS_VERIFY_SERVER};
    use_options(&sides[ACCEPTING], &options);
}

static void a_pair_that_is_of_no_use_is_made_anew(void **state) {
    static const struct tls_terms short_lived = {0}; /* a day is less than thirty */
    assert_int_equal(make(), STATUS_OK);
    /* The certificate of another key. */
    make_side(CONNECTING, &ours, &ours, &short_lived);
    assert_int_equal(rename(sides[CONNECTING].files.cert, made.cert_file), 0);
    assert_replaced(made.cert_file);
    /* Both of another pair, which expires soon. */
    make_side(CONNECTING, &ours, &ours, &short_lived);
    assert_int_equal(rename(sides[CONNECTING].files.cert, made.cert_file), 0);
    assert_int_equal(rename(sides[CONNECTING].files.key, made.key_file), 0);
    assert_replaced(made.cert_file);
    /* A torn file. */
    assert_int_equal(truncate(made.key_file, 50), 0);
    assert_replaced(made.key_file);
    remove_made();
}

static void what_cannot_be_made_is_told(void **state) {
    char error[512] = "";
    const char *const empty[] = {""};
    struct tls_auto_files files;
    snprintf(folder, sizeof folder, "%.80s/client", tls_folder);
    assert_int_equal(tls_auto_certificate(folder, empty, 1, &files, error, sizeof error),
                     STATUS_INVALID);
    assert_int_equal(tls_auto_certificate(folder, NULL, 0, &files, error, sizeof error),
                     STATUS_INVALID);
    assert_int_not_equal(access(folder, F_OK), 0);
    snprintf(folder, sizeof folder, "%.80s/no/such/folder", tls_folder);
    assert_int_equal(tls_auto_certificate(folder, hosts, N_HOSTS, &files, error, sizeof error),
                     STATUS_IO);
    assert_non_null(strstr(error, "No such file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(a_pair_is_made_once_and_kept),
        TLS_TEST(who_has_the_file_can_verify_the_node),
        TLS_TEST(two_such_nodes_can_speak_without_verification),
        TLS_TEST(a_pair_that_is_of_no_use_is_made_anew),
        TLS_TEST(what_cannot_be_made_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
