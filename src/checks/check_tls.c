#include "checks/check_tls.h"

#include "base/log.h"

#include <stdlib.h>

enum { KINDS = 4, ERROR_SIZE = 256, RETRY_MS = 10000 };

enum state { STATE_NONE, STATE_WORKING, STATE_READY, STATE_FAILED };

struct setting {
    struct check_tls *tls;
    uv_work_t work;
    enum state state;
    struct tls_options options;
    struct tls_context *context;
    uint64_t failed_ms;
    char error[ERROR_SIZE];
};

struct check_tls {
    uv_loop_t *loop;
    const char *ca_file;
    size_t n_working;
    bool is_destroyed;
    struct setting settings[KINDS];
};

struct check_tls *check_tls_create(uv_loop_t *loop, const char *ca_file) {
    struct check_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        abort();
    }
    tls->loop = loop;
    tls->ca_file = ca_file;
    return tls;
}

void check_tls_destroy(struct check_tls *tls) {
    tls->is_destroyed = true;
    if (tls->n_working > 0) {
        return;
    }
    for (size_t i = 0; i < KINDS; i++) {
        if (tls->settings[i].context != NULL) {
            tls_context_destroy(tls->settings[i].context);
        }
    }
    free(tls);
}

static void make_context(uv_work_t *work) {
    struct setting *setting = work->data;
    (void)tls_context_create(&setting->options, &setting->context, setting->error,
                             sizeof setting->error);
}

static void context_made(uv_work_t *work, int result) {
    struct setting *setting = work->data;
    struct check_tls *tls = setting->tls;
    (void)result;
    setting->state = setting->context != NULL ? STATE_READY : STATE_FAILED;
    setting->failed_ms = uv_now(tls->loop);
    if (setting->state == STATE_FAILED) {
        log_warning("health checks cannot use TLS", LOG_TEXT("reason", setting->error));
    }
    tls->n_working--;
    if (tls->is_destroyed) {
        check_tls_destroy(tls);
    }
}

static struct setting *setting_of(struct check_tls *tls, struct check_tls_kind kind) {
    return &tls->settings[(kind.skips_verification ? 2 : 0) + (kind.is_http2 ? 1 : 0)];
}

bool check_tls_prepare(struct check_tls *tls, struct check_tls_kind kind) {
    struct setting *setting = setting_of(tls, kind);
    bool is_to_be_made =
        setting->state == STATE_NONE ||
        (setting->state == STATE_FAILED && uv_now(tls->loop) >= setting->failed_ms + RETRY_MS);
    if (is_to_be_made) {
        setting->tls = tls;
        setting->work.data = setting;
        setting->options = (struct tls_options){
            .ca_file = tls->ca_file,
            .verify = kind.skips_verification ? TLS_VERIFY_NONE : TLS_VERIFY_REQUIRED,
            .is_client = true,
            .alpn = kind.is_http2 ? "h2" : "http/1.1",
        };
        if (uv_queue_work(tls->loop, &setting->work, make_context, context_made) == 0) {
            setting->state = STATE_WORKING;
            tls->n_working++;
        }
    }
    return setting->state == STATE_READY || setting->state == STATE_FAILED;
}

struct tls_context *check_tls_context(struct check_tls *tls, struct check_tls_kind kind,
                                      const char **out_error) {
    struct setting *setting = setting_of(tls, kind);
    *out_error = setting->state == STATE_FAILED ? setting->error : "TLS is not ready yet";
    return setting->state == STATE_READY ? setting->context : NULL;
}
