/* JSON Web Tokens: what was signed is read back, with each method; nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "server/jwt.h"

static const int64_t now_s = 1000000;

/* Files in a folder of its own. */
struct fixture {
    char folder[64];
    char private_path[96];
    char public_path[96];
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/leased-jwt-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->private_path, sizeof fixture->private_path, "%s/private", fixture->folder);
    snprintf(fixture->public_path, sizeof fixture->public_path, "%s/public", fixture->folder);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    (void)unlink(fixture->private_path);
    (void)unlink(fixture->public_path);
    assert_int_equal(rmdir(fixture->folder), 0);
    free(fixture);
    return 0;
}

static void write_keys(const struct fixture *fixture, EVP_PKEY *key) {
    assert_non_null(key);
    FILE *file = fopen(fixture->private_path, "w");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    file = fopen(fixture->public_path, "w");
    assert_int_equal(PEM_write_PUBKEY(file, key), 1);
    assert_int_equal(fclose(file), 0);
    EVP_PKEY_free(key);
}

static void write_secret(const struct fixture *fixture, const char *text) {
    FILE *file = fopen(fixture->private_path, "w");
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool open_with(const char *format, const struct fixture *fixture, const char *method,
                      struct jwt **out_jwt, char error[JWT_ERROR_SIZE]) {
    char text[512];
    snprintf(text, sizeof text, format, method, fixture->private_path, fixture->public_path);
    return jwt_open(text, out_jwt, error);
}

static struct jwt *open_both(const struct fixture *fixture, const char *method) {
    char error[JWT_ERROR_SIZE] = "";
    struct jwt *jwt = NULL;
    if (!open_with("jwt,sign-method=%s,priv-key=%s,pub-key=%s,ttl=10s", fixture, method, &jwt,
                   error)) {
        fail_msg("%s", error);
    }
    return jwt;
}

static void check_round(const struct jwt *jwt) {
    char text[JWT_TEXT_SIZE];
    struct jwt_claims claims;
    assert_true(jwt_write(jwt, bytes_from_text("al\"ice"), 7, now_s, text));
    assert_true(jwt_read(jwt, bytes_from_text(text), now_s + 9, &claims));
    assert_int_equal(claims.user_size, 6);
    assert_memory_equal(claims.user, "al\"ice", 6);
    assert_int_equal(claims.revision, 7);
    assert_int_equal(claims.expires_s, now_s + 10);
    assert_false(jwt_read(jwt, bytes_from_text(text), now_s + 10, &claims));
    /* The last character may hold bits that count for nothing, in base 64. */
    size_t size = strlen(text) - 1;
    for (size_t i = 0; i < size; i += size / 40) {
        char was = text[i];
        text[i] = was == 'A' ? 'B' : 'A';
        assert_false(jwt_read(jwt, bytes_from_text(text), now_s, &claims));
        text[i] = was;
    }
    for (size_t i = 0; i < size; i += size / 40) {
        assert_false(jwt_read(jwt, bytes_of(text, i), now_s, &claims));
    }
}

static void every_method_reads_what_it_wrote(void **state) {
    static const struct {
        const char *method;
        const char *curve;
    } cases[] = {{"RS256", NULL},    {"RS384", NULL},    {"RS512", NULL},
                 {"PS256", NULL},    {"PS384", NULL},    {"PS512", NULL},
                 {"ES256", "P-256"}, {"ES384", "P-384"}, {"ES512", "P-521"}};
    struct fixture *fixture = *state;
    write_keys(fixture, EVP_RSA_gen(2048));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].curve != NULL) {
            write_keys(fixture, EVP_EC_gen(cases[i].curve));
        }
        struct jwt *jwt = open_both(fixture, cases[i].method);
        check_round(jwt);
        jwt_destroy(jwt);
    }
    write_secret(fixture, "a secret of some bytes");
    static const char *const methods[] = {"HS256", "HS384", "HS512"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        struct jwt *jwt = open_both(fixture, methods[i]);
        check_round(jwt);
        jwt_destroy(jwt);
    }
}

/* Made by another program: {"alg":"HS256","typ":"JWT"}, claims, key "secret". */
static void tokens_of_others_are_read(void **state) {
    static const char text[] = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
                               "eyJ1c2VybmFtZSI6ImFsaWNlIiwicmV2aXNpb24iOjUsImV4cCI6MTAwMDA1MH0."
                               "Uha9GHWfhtxM7znLU7gXoQH0vmgfBwyfGWWQJ5yuC_Q";
    struct fixture *fixture = *state;
    write_secret(fixture, "secret");
    struct jwt *jwt = open_both(fixture, "HS256");
    struct jwt_claims claims;
    assert_true(jwt_read(jwt, bytes_from_text(text), now_s, &claims));
    assert_int_equal(claims.revision, 5);
    assert_int_equal(claims.expires_s, 1000050);
    jwt_destroy(jwt);
}

static void an_unsigned_token_is_refused(void **state) {
    /* {"alg":"none"} and {"alg":"HS256"} with the claims of above. */
    static const char *const texts[] = {
        "eyJhbGciOiJub25lIn0.eyJ1c2VybmFtZSI6ImFsaWNlIiwicmV2aXNpb24iOjUsImV4cCI6MTAwMDA1MH0.",
        "eyJhbGciOiJIUzI1NiJ9.eyJ1c2VybmFtZSI6ImFsaWNlIiwicmV2aXNpb24iOjUsImV4cCI6MTAwMDA1MH0.",
        "",
        ".",
        "..",
        "e30.e30.e30",
    };
    struct fixture *fixture = *state;
    write_secret(fixture, "secret");
    struct jwt *jwt = open_both(fixture, "HS256");
    struct jwt_claims claims;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(jwt_read(jwt, bytes_from_text(texts[i]), now_s, &claims));
    }
    jwt_destroy(jwt);
}

static void a_public_key_alone_reads_but_does_not_write(void **state) {
    struct fixture *fixture = *state;
    char error[JWT_ERROR_SIZE] = "";
    char text[JWT_TEXT_SIZE];
    char settings[512];
    struct jwt_claims claims;
    struct jwt *reader = NULL;
    write_keys(fixture, EVP_EC_gen("P-256"));
    struct jwt *writer = open_both(fixture, "ES256");
    snprintf(settings, sizeof settings, "jwt,sign-method=ES256,pub-key=%s", fixture->public_path);
    assert_true(jwt_open(settings, &reader, error));
    assert_true(jwt_write(writer, bytes_from_text("u"), 1, now_s, text));
    assert_true(jwt_read(reader, bytes_from_text(text), now_s, &claims));
    assert_false(jwt_write(reader, bytes_from_text("u"), 1, now_s, text));
    jwt_destroy(writer);
    jwt_destroy(reader);
}

static void settings_that_cannot_be_used_are_refused(void **state) {
    static const char *const formats[] = {
        "jwt,sign-method=%s,priv-key=%s,pub-key=%s,ttl=0s",
        "jwt,sign-method=%s,priv-key=%s,pub-key=%s,ttl=soon",
        "jwt,sign-method=%s,priv-key=%s,pub-key=%s,other=1",
        "jwt,sign-method=%s,sign-method=RS256,priv-key=%s,pub-key=%s",
        "jwt,sign-method=none%s,priv-key=%s,pub-key=%s",
        "jwt,sign-method=%s,priv-key=%s.missing,pub-key=%s",
        /* The public key is no private one. */
        "jwt,sign-method=%s,pub-key=%s.,priv-key=%s",
    };
    struct fixture *fixture = *state;
    struct jwt *jwt = NULL;
    char error[JWT_ERROR_SIZE];
    write_keys(fixture, EVP_EC_gen("P-256"));
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        error[0] = '\0';
        assert_false(open_with(formats[i], fixture, "ES256", &jwt, error));
        assert_string_not_equal(error, "");
    }
    /* A key of another curve, and of another kind. */
    assert_false(
        open_with("jwt,sign-method=%s,priv-key=%s,pub-key=%s", fixture, "ES384", &jwt, error));
    assert_false(
        open_with("jwt,sign-method=%s,priv-key=%s,pub-key=%s", fixture, "RS256", &jwt, error));
    assert_false(jwt_open("jwt,", &jwt, error));
    assert_false(jwt_open("jwt", &jwt, error));
    assert_false(jwt_open("", &jwt, error));
    assert_true(jwt_open("simple", &jwt, error));
    assert_null(jwt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_method_reads_what_it_wrote, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tokens_of_others_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unsigned_token_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_public_key_alone_reads_but_does_not_write, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(settings_that_cannot_be_used_are_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
