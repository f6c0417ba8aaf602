/* Our header blocks against nghttp2's coder, which plays the server. */
#include "client/header_codec.h"
#include "client/http2_wire.h"

#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char put_path[] = "/etcdserverpb.KV/Put";
static const char range_path[] = "/etcdserverpb.KV/Range";

/* ---- requests ---- */

/* "name=value;" of every header of the block. */
static void read_request(nghttp2_hd_inflater *inflater, struct bytes block, char *out_text) {
    out_text[0] = 0;
    for (;;) {
        nghttp2_nv header;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &header, &flags, block.data, block.size, 1);
        assert_true(used >= 0);
        block.data += used;
        block.size -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            sprintf(out_text + strlen(out_text), "%.*s=%.*s;", (int)header.namelen, header.name,
                    (int)header.valuelen, header.value);
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
            break;
        }
    }
    nghttp2_hd_inflate_end_headers(inflater);
}

static void expect_request(struct header_codec *codec, nghttp2_hd_inflater *inflater,
                           const char *path, uint32_t timeout_ms, const char *timeout) {
    char text[4096];
    char expected[4096];
    snprintf(expected, sizeof expected,
             ":method=POST;:scheme=http;:path=%s;:authority=host:1;"
             "content-type=application/grpc;te=trailers;%s",
             path, timeout);
    read_request(inflater, header_codec_encode(codec, path, timeout_ms), text);
    assert_string_equal(text, expected);
}

static void requests_read_back_whatever_came_before(void **state) {
    struct header_codec *codec = header_codec_create("host:1", false);
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    for (int round = 0; round < 3; round++) {
        expect_request(codec, inflater, put_path, 5000, "grpc-timeout=5000m;");
        expect_request(codec, inflater, put_path, 0, "");
        expect_request(codec, inflater, range_path, 5000, "grpc-timeout=5000m;");
        expect_request(codec, inflater, put_path, UINT32_MAX, "grpc-timeout=4294967S;");
        expect_request(codec, inflater, range_path, 0, "");
    }
    nghttp2_hd_inflate_del(inflater);
    header_codec_destroy(codec);
}

static void a_token_is_said_from_then_on(void **state) {
    struct header_codec *codec = header_codec_create("host:1", false);
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    expect_request(codec, inflater, put_path, 0, "");
    expect_request(codec, inflater, put_path, 0, "");
    assert_true(header_codec_set_token(codec, "first.1"));
    expect_request(codec, inflater, put_path, 0, "authorization=first.1;");
    expect_request(codec, inflater, put_path, 0, "authorization=first.1;");
    assert_true(header_codec_set_token(codec, "second.2"));
    for (int round = 0; round < 3; round++) {
        expect_request(codec, inflater, put_path, 0, "authorization=second.2;");
    }
    nghttp2_hd_inflate_del(inflater);
    header_codec_destroy(codec);
}

static void a_request_said_before_takes_few_bytes(void **state) {
    struct header_codec *codec = header_codec_create("host:1", false);
    assert_true(header_codec_encode(codec, put_path, 60000).size > 60);
    assert_int_equal(header_codec_encode(codec, put_path, 60000).size, 7);
    assert_int_equal(header_codec_encode(codec, put_path, 60000).size, 7);
    header_codec_destroy(codec);
}

static void a_full_table_is_no_harm(void **state) {
    struct header_codec *codec = header_codec_create("host:1", false);
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    /* Each timeout is an entry of its own; far more than there is room for. */
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t timeout_ms = 1; timeout_ms < 200; timeout_ms++) {
            char expected[64];
            snprintf(expected, sizeof expected, "grpc-timeout=%um;", timeout_ms);
            expect_request(codec, inflater, put_path, timeout_ms, expected);
        }
    }
    nghttp2_hd_inflate_del(inflater);
    header_codec_destroy(codec);
}

static void a_long_authority_is_said_whole(void **state) {
    char authority[300];
    char text[4096];
    memset(authority, 'h', sizeof authority - 1);
    authority[sizeof authority - 1] = 0;
    struct header_codec *codec = header_codec_create(authority, false);
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    for (int round = 0; round < 2; round++) {
        read_request(inflater, header_codec_encode(codec, put_path, 0), text);
        assert_non_null(strstr(text, authority));
    }
    nghttp2_hd_inflate_del(inflater);
    header_codec_destroy(codec);
}

static void a_peer_with_a_smaller_table_is_obeyed(void **state) {
    struct header_codec *codec = header_codec_create("host:1", false);
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    expect_request(codec, inflater, put_path, 0, "");
    expect_request(codec, inflater, put_path, 0, "");
    assert_int_equal(nghttp2_hd_inflate_change_table_size(inflater, 0), 0);
    header_codec_limit_table(codec, 0);
    for (int round = 0; round < 3; round++) {
        expect_request(codec, inflater, put_path, 0, "");
        expect_request(codec, inflater, range_path, 100, "grpc-timeout=100m;");
    }
    nghttp2_hd_inflate_del(inflater);
    header_codec_destroy(codec);
}

/* ---- answers ---- */

struct server {
    nghttp2_hd_deflater *deflater;
    uint8_t block[1024];
};

static struct bytes say(struct server *server, const char *const *headers, size_t n_headers) {
    nghttp2_nv list[8];
    for (size_t i = 0; i < n_headers; i++) {
        list[i] = (nghttp2_nv){
            .name = (uint8_t *)headers[2 * i],
            .namelen = strlen(headers[2 * i]),
            .value = (uint8_t *)headers[2 * i + 1],
            .valuelen = strlen(headers[2 * i + 1]),
        };
    }
    ssize_t size = nghttp2_hd_deflate_hd(server->deflater, server->block, sizeof server->block,
                                         list, n_headers);
    assert_true(size > 0);
    return bytes_of(server->block, (size_t)size);
}

static void answers_are_read_whatever_came_before(void **state) {
    static const char *const head[] = {":status", "200", "content-type", "application/grpc"};
    static const char *const good[] = {"grpc-status", "0", "grpc-message", ""};
    static const char *const bad[] = {"grpc-status", "5", "grpc-message", "no%20such%20key"};
    static const char *const page[] = {":status", "404", "content-type", "text/html"};
    struct header_codec *codec = header_codec_create("host:1", false);
    struct server server;
    unsigned seed = 7;
    assert_int_equal(nghttp2_hd_deflate_new(&server.deflater, 4096), 0);
    for (int round = 0; round < 5000; round++) {
        struct header_codec_answer answer;
        char number[16];
        const char *const other[] = {"x-trace", number};
        switch (rand_r(&seed) % 8) {
        case 0: /* something that changes the tables */
            snprintf(number, sizeof number, "%d", round);
            assert_int_equal(header_codec_decode(codec, say(&server, other, 1), &answer),
                             STATUS_OK);
            assert_int_equal(answer.grpc_status, -1);
            break;
        case 1:
            assert_int_equal(header_codec_decode(codec, say(&server, bad, 2), &answer), STATUS_OK);
            assert_int_equal(answer.grpc_status, 5);
            assert_string_equal(answer.text, "no such key");
            break;
        case 2:
            assert_int_equal(header_codec_decode(codec, say(&server, page, 2), &answer), STATUS_OK);
            assert_int_equal(answer.http_status, 404);
            assert_false(answer.is_grpc);
            break;
        case 3:
        case 4:
        case 5:
            assert_int_equal(header_codec_decode(codec, say(&server, head, 2), &answer), STATUS_OK);
            assert_int_equal(answer.http_status, 200);
            assert_int_equal(answer.grpc_status, -1);
            assert_true(answer.is_grpc);
            break;
        default:
            assert_int_equal(header_codec_decode(codec, say(&server, good, 2), &answer), STATUS_OK);
            assert_int_equal(answer.http_status, 0);
            assert_int_equal(answer.grpc_status, 0);
            assert_string_equal(answer.text, "");
            break;
        }
    }
    nghttp2_hd_deflate_del(server.deflater);
    header_codec_destroy(codec);
}

static void what_is_no_block_is_refused(void **state) {
    static const struct bytes wrong[] = {
        {.data = (const uint8_t *)"\x80", .size = 1},       /* place 0 */
        {.data = (const uint8_t *)"\xfe", .size = 1},       /* a place that is not taken */
        {.data = (const uint8_t *)"\x00\x05te", .size = 4}, /* a name cut off */
        {.data = (const uint8_t *)"\x88\x0f", .size = 2},   /* a number cut off */
        {.data = (const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", .size = 10},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct header_codec *codec = header_codec_create("host:1", false);
        struct header_codec_answer answer;
        assert_int_equal(header_codec_decode(codec, wrong[i], &answer), STATUS_MALFORMED);
        header_codec_destroy(codec);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_read_back_whatever_came_before),
        cmocka_unit_test(a_token_is_said_from_then_on),
        cmocka_unit_test(a_request_said_before_takes_few_bytes),
        cmocka_unit_test(a_full_table_is_no_harm),
        cmocka_unit_test(a_long_authority_is_said_whole),
        cmocka_unit_test(a_peer_with_a_smaller_table_is_obeyed),
        cmocka_unit_test(answers_are_read_whatever_came_before),
        cmocka_unit_test(what_is_no_block_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
