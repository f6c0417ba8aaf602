#include "server/password_hasher.h"

#include "base/list.h"

#include <assert.h>
#include <crypt.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static const char method[] = "$y$"; /* yescrypt, at libxcrypt's own cost */

struct password_hasher {
    uv_loop_t *loop;
    struct list waiting;
    struct list waiting_urgent; /* come first */
    size_t n_jobs[2];           /* others, and urgent ones */
    size_t n_running;
    bool is_closing;
    /* What the password of an unknown user is verified against. */
    char nobody[CRYPT_OUTPUT_SIZE];
};

struct password_job {
    uv_work_t work;
    struct list link;
    struct password_hasher *hasher;
    password_done done; /* NULL: canceled */
    void *data;
    bool is_urgent;
    bool is_running;
    bool is_verification;
    bool is_nobody;
    enum status status;
    char password[PASSWORD_SIZE_MAX + 1];
    char setting[CRYPT_OUTPUT_SIZE]; /* the hash to verify against, or the salt of a new one */
    char hash[CRYPT_OUTPUT_SIZE];
};

bool password_is_usable(struct bytes password) {
    return password.size <= PASSWORD_SIZE_MAX &&
           (password.size == 0 || memchr(password.data, 0, password.size) == NULL);
}

struct password_hasher *password_hasher_create(uv_loop_t *loop) {
    struct password_hasher *hasher = calloc(1, sizeof *hasher);
    if (hasher == NULL) {
        abort();
    }
    hasher->loop = loop;
    list_init(&hasher->waiting);
    list_init(&hasher->waiting_urgent);
    char *salt = crypt_gensalt_rn(method, 0, NULL, 0, hasher->nobody, sizeof hasher->nobody);
    assert(salt != NULL);
    return hasher;
}

static void job_destroy(struct password_job *job) {
    job->hasher->n_jobs[job->is_urgent]--;
    OPENSSL_cleanse(job, sizeof *job);
    free(job);
}

/* NULL: none waits. */
static struct password_job *take_first(struct password_hasher *hasher) {
    struct list *link = list_pop_first(&hasher->waiting_urgent);
    if (link == NULL) {
        link = list_pop_first(&hasher->waiting);
    }
    return link != NULL ? list_entry(link, struct password_job, link) : NULL;
}

static void destroy_if_idle(struct password_hasher *hasher) {
    if (hasher->is_closing && hasher->n_running == 0) {
        free(hasher);
    }
}

void password_hasher_destroy(struct password_hasher *hasher) {
    if (hasher == NULL) {
        return;
    }
    hasher->is_closing = true;
    struct password_job *job;
    while ((job = take_first(hasher)) != NULL) {
        job_destroy(job);
    }
    destroy_if_idle(hasher);
}

/* --- On a worker. --- */

static void run(uv_work_t *work) {
    struct password_job *job = work->data;
    struct crypt_data *data = calloc(1, sizeof *data);
    job->status = job->is_verification ? STATUS_AUTH_FAILED : STATUS_NO_MEMORY;
    if (data == NULL) {
        return;
    }
    const char *hash = crypt_rn(job->password, job->setting, data, sizeof *data);
    if (hash != NULL && !job->is_verification) {
        memcpy(job->hash, hash, strlen(hash) + 1);
        job->status = STATUS_OK;
    } else if (hash != NULL && !job->is_nobody && strlen(hash) == strlen(job->setting) &&
               CRYPTO_memcmp(hash, job->setting, strlen(hash)) == 0) {
        job->status = STATUS_OK;
    }
    OPENSSL_cleanse(data, sizeof *data);
    free(data);
}

/* --- On the loop. --- */

static void start_waiting(struct password_hasher *hasher);

static void ran(uv_work_t *work, int result) {
    struct password_job *job = work->data;
    struct password_hasher *hasher = job->hasher;
    (void)result; /* never canceled */
    hasher->n_running--;
    if (job->done != NULL && !hasher->is_closing) {
        job->done(job->data, job->status, bytes_from_text(job->hash));
    }
    job_destroy(job);
    start_waiting(hasher);
    destroy_if_idle(hasher);
}

static void start_waiting(struct password_hasher *hasher) {
    while (hasher->n_running < PASSWORD_RUNNING_MAX && !hasher->is_closing) {
        struct password_job *job = take_first(hasher);
        if (job == NULL) {
            return;
        }
        job->is_running = true;
        hasher->n_running++;
        int result = uv_queue_work(hasher->loop, &job->work, run, ran);
        assert(result == 0);
    }
}

static struct password_job *add(struct password_hasher *hasher, struct bytes password,
                                bool is_urgent, password_done done, void *data) {
    assert(password_is_usable(password));
    size_t n_max = is_urgent ? PASSWORD_URGENT_JOBS_MAX : PASSWORD_JOBS_MAX;
    struct password_job *job = hasher->n_jobs[is_urgent] < n_max ? calloc(1, sizeof *job) : NULL;
    if (job == NULL) {
        return NULL;
    }
    hasher->n_jobs[is_urgent]++;
    job->is_urgent = is_urgent;
    job->work.data = job;
    job->hasher = hasher;
    job->done = done;
    job->data = data;
    if (password.size > 0) {
        memcpy(job->password, password.data, password.size);
    }
    list_append(is_urgent ? &hasher->waiting_urgent : &hasher->waiting, &job->link);
    return job;
}

struct password_job *password_hasher_verify(struct password_hasher *hasher, struct bytes password,
                                            struct bytes hash, bool is_urgent, password_done done,
                                            void *data) {
    struct password_job *job = add(hasher, password, is_urgent, done, data);
    if (job == NULL) {
        return NULL;
    }
    job->is_verification = true;
    job->is_nobody = hash.size == 0 || hash.size >= sizeof job->setting;
    if (job->is_nobody) {
        memcpy(job->setting, hasher->nobody, sizeof job->setting);
    } else {
        memcpy(job->setting, hash.data, hash.size);
    }
    start_waiting(hasher);
    return job;
}

struct password_job *password_hasher_hash(struct password_hasher *hasher, struct bytes password,
                                          password_done done, void *data) {
    struct password_job *job = add(hasher, password, true, done, data);
    if (job == NULL) {
        return NULL;
    }
    char *salt = crypt_gensalt_rn(method, 0, NULL, 0, job->setting, sizeof job->setting);
    assert(salt != NULL);
    start_waiting(hasher);
    return job;
}

void password_job_cancel(struct password_job *job) {
    if (job->is_running) {
        job->done = NULL;
        return;
    }
    list_remove(&job->link);
    job_destroy(job);
}
