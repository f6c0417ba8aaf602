#include "server/authenticator.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/auth.h"
#include "server/auth_token.h"
#include "server/authenticator_internal.h"
#include "server/login_limits.h"
#include "server/password_hasher.h"
#include "tls/tls_identity.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static_assert((int)AUTHENTICATOR_TOKEN_SIZE >= (int)AUTH_TOKEN_TEXT_SIZE, "a token fits");
static_assert((int)AUTHENTICATOR_TOKEN_SIZE >= (int)JWT_TEXT_SIZE, "a JSON Web Token fits");
static_assert((int)JWT_USER_SIZE_MAX >= (int)AUTH_NAME_SIZE_MAX, "a name fits");

enum {
    /* A token is good for so many epochs after its own (an hour each, see housekeeping.h). */
    TOKEN_EPOCHS = 23,
    LOG_INTERVAL_MS = 1000,
    LOGGED_PER_INTERVAL = 5,
    NAME_SHOWN_SIZE = sizeof((struct authenticator_login){0}).private.name
};

static const struct auth *auth_of(const struct authenticator *authenticator) {
    return state_view_auth(service_view(authenticator->service));
}

static void fill_randomly(void *memory, size_t size) {
    ssize_t n = getrandom(memory, size, 0);
    assert(n == (ssize_t)size);
}

struct authenticator *authenticator_create(uv_loop_t *loop, struct service *service,
                                           const struct jwt *jwt) {
    struct authenticator *authenticator = calloc(1, sizeof *authenticator);
    if (authenticator == NULL) {
        abort();
    }
    uint64_t seed;
    fill_randomly(&seed, sizeof seed);
    fill_randomly(authenticator->process_key, sizeof authenticator->process_key);
    authenticator->service = service;
    authenticator->jwt = jwt;
    authenticator->hasher = password_hasher_create(loop);
    authenticator->limits = login_limits_create(seed);
    list_init(&authenticator->pending);
    return authenticator;
}

void authenticator_destroy(struct authenticator *authenticator) {
    if (authenticator == NULL) {
        return;
    }
    assert(list_is_empty(&authenticator->pending));
    password_hasher_destroy(authenticator->hasher);
    login_limits_destroy(authenticator->limits);
    OPENSSL_cleanse(authenticator, sizeof *authenticator);
    free(authenticator);
}

void authenticator_stats(const struct authenticator *authenticator,
                         struct authenticator_stats *out_stats) {
    *out_stats = authenticator->stats;
}

bool authenticator_is_on(const struct authenticator *authenticator) {
    return auth_is_enabled(auth_of(authenticator));
}

/* --- Failures. --- */

/* What a client sent is shown without what could deceive a reader of the log. */
static void show(struct bytes name, char out_text[NAME_SHOWN_SIZE]) {
    size_t n = name.size < NAME_SHOWN_SIZE ? name.size : NAME_SHOWN_SIZE - 1;
    for (size_t i = 0; i < n; i++) {
        out_text[i] = name.data[i] >= 0x20 && name.data[i] < 0x7f ? (char)name.data[i] : '?';
    }
    out_text[n] = '\0';
}

static void note_failure(struct authenticator *authenticator, const char *name, const char *address,
                         const char *reason) {
    uint64_t now_ms = service_now_ms(authenticator->service);
    if (now_ms - authenticator->logged_ms >= LOG_INTERVAL_MS) {
        authenticator->logged_ms = now_ms;
        authenticator->n_logged = 0;
    }
    if (authenticator->n_logged++ < LOGGED_PER_INTERVAL) {
        log_warning("authentication failed", LOG_TEXT("user", name), LOG_TEXT("address", address),
                    LOG_TEXT("reason", reason));
    }
}

/* --- Certificates. --- */

static bool find_user(const struct authenticator *authenticator, struct bytes name,
                      struct caller *out_caller) {
    struct auth_user user;
    if (!auth_find_user(auth_of(authenticator), name, &user)) {
        return false;
    }
    *out_caller = (struct caller){.user_id = user.id, .auth_version = user.version};
    return true;
}

bool authenticator_certificate(struct authenticator *authenticator,
                               const struct tls_identity *identity, struct caller *out_caller) {
    static const enum tls_name_kind kinds[] = {TLS_NAME_COMMON, TLS_NAME_DNS, TLS_NAME_URI};
    if (identity == NULL || !authenticator_is_on(authenticator)) {
        return false;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *name;
        for (size_t j = 0; (name = tls_identity_name(identity, kinds[i], j)) != NULL; j++) {
            if (find_user(authenticator, bytes_from_text(name), out_caller)) {
                return true;
            }
        }
    }
    return false;
}

/* --- Tokens. --- */

static int64_t wall_s(void) {
    return clock_wall_ms() / 1000;
}

static bool make_jwt(struct authenticator *authenticator, const struct caller *caller,
                     char out_token[AUTHENTICATOR_TOKEN_SIZE]) {
    const struct auth *auth = auth_of(authenticator);
    struct auth_user user;
    return auth_find_user_id(auth, caller->user_id, &user) &&
           jwt_write(authenticator->jwt, user.name, auth_revision(auth), wall_s(), out_token);
}

bool authenticator_make_token(struct authenticator *authenticator, const struct caller *caller,
                              char out_token[AUTHENTICATOR_TOKEN_SIZE]) {
    const struct auth *auth = auth_of(authenticator);
    if (authenticator->jwt != NULL) {
        return make_jwt(authenticator, caller, out_token);
    }
    const struct auth_token token = {.user_id = caller->user_id,
                                     .version = caller->auth_version,
                                     .epoch = auth_token_epoch(auth)};
    /* Of a user that is gone meanwhile it is good for nothing. */
    struct auth_user user = {0};
    (void)auth_find_user_id(auth, caller->user_id, &user);
    auth_token_write(&token, auth_token_key(auth), user.password_hash, out_token);
    return true;
}

/* Most requests of a client show the same token: its signature is computed once. */
static struct known_token *known_token(struct authenticator *authenticator, struct bytes text) {
    /* The end of the text is the end of the signature. */
    size_t hash = 0;
    for (size_t i = text.size - sizeof hash; i < text.size; i++) {
        hash = hash << 8 | text.data[i];
    }
    return &authenticator->tokens[hash % KNOWN_TOKENS];
}

/* True: it was given to the user that it names, whose credentials have not changed since. */
static bool read_token(struct authenticator *authenticator, struct bytes text,
                       struct auth_token *out_token) {
    const struct auth *auth = auth_of(authenticator);
    struct auth_user user;
    if (text.size < sizeof(size_t) || text.size >= AUTH_TOKEN_TEXT_SIZE) {
        return false;
    }
    /* Another key, or other users. */
    if (authenticator->tokens_generation != auth_generation(auth)) {
        memset(authenticator->tokens, 0, sizeof authenticator->tokens);
        authenticator->tokens_generation = auth_generation(auth);
    }
    struct known_token *known = known_token(authenticator, text);
    if (known->size == text.size && CRYPTO_memcmp(known->text, text.data, text.size) == 0) {
        *out_token = known->token;
        return true;
    }
    if (!auth_token_read(text, out_token) || !auth_find_user_id(auth, out_token->user_id, &user) ||
        user.version != out_token->version ||
        !auth_token_verify(text, auth_token_key(auth), user.password_hash)) {
        return false;
    }
    memcpy(known->text, text.data, text.size);
    known->size = text.size;
    known->token = *out_token;
    return true;
}

static bool caller_of_token(struct authenticator *authenticator, struct bytes text,
                            struct caller *out_caller) {
    const struct auth *auth = auth_of(authenticator);
    struct auth_token token;
    /* A member that lags may meet a token of an epoch that it does not know yet. */
    if (!read_token(authenticator, text, &token) ||
        (token.epoch < auth_token_epoch(auth) &&
         auth_token_epoch(auth) - token.epoch > TOKEN_EPOCHS)) {
        return false;
    }
    *out_caller = (struct caller){.user_id = token.user_id, .auth_version = token.version};
    return true;
}

/* Verifying a signature costs more than all the rest of a request: it is done once a token. */
static bool read_jwt(struct authenticator *authenticator, struct bytes text,
                     struct jwt_claims *out_claims) {
    uint8_t digest[KNOWN_DIGEST_SIZE];
    if (text.size >= JWT_TEXT_SIZE ||
        EVP_Digest(text.data, text.size, digest, NULL, EVP_sha256(), NULL) != 1) {
        return false;
    }
    struct known_jwt *known =
        &authenticator->jwts[((size_t)digest[0] | (size_t)digest[1] << 8) % KNOWN_JWTS];
    int64_t now_s = wall_s();
    if (known->claims.user_size > 0 && CRYPTO_memcmp(known->digest, digest, sizeof digest) == 0) {
        *out_claims = known->claims;
        return now_s < out_claims->expires_s;
    }
    if (!jwt_read(authenticator->jwt, text, now_s, out_claims)) {
        return false;
    }
    memcpy(known->digest, digest, sizeof digest);
    known->claims = *out_claims;
    return true;
}

/* etcd's rule: every change of users or roles ends the tokens of before. It makes a user's new
 * password, and a new user of an old name, end them. */
static bool caller_of_jwt(struct authenticator *authenticator, struct bytes text,
                          struct caller *out_caller) {
    struct jwt_claims claims;
    if (!read_jwt(authenticator, text, &claims) ||
        claims.revision < auth_revision(auth_of(authenticator))) {
        return false;
    }
    return find_user(authenticator, bytes_of(claims.user, claims.user_size), out_caller);
}

enum status authenticator_token(struct authenticator *authenticator, struct bytes text,
                                struct caller *out_caller) {
    bool is_good = auth_is_enabled(auth_of(authenticator)) &&
                   (authenticator->jwt != NULL ? caller_of_jwt(authenticator, text, out_caller)
                                               : caller_of_token(authenticator, text, out_caller));
    authenticator->stats.failures += !is_good;
    return is_good ? STATUS_OK : STATUS_AUTH_TOKEN_INVALID;
}

/* --- Passwords. --- */

static void digest_of(const struct authenticator *authenticator, struct bytes name,
                      struct bytes password, uint8_t out_digest[KNOWN_DIGEST_SIZE]) {
    uint8_t message[AUTH_NAME_SIZE_MAX + 1 + PASSWORD_SIZE_MAX];
    unsigned size = 0;
    memcpy(message, name.data, name.size);
    message[name.size] = 0;
    if (password.size > 0) {
        memcpy(message + name.size + 1, password.data, password.size);
    }
    const uint8_t *digest =
        HMAC(EVP_sha256(), authenticator->process_key, (int)sizeof authenticator->process_key,
             message, name.size + 1 + password.size, out_digest, &size);
    assert(digest != NULL);
    assert(size == KNOWN_DIGEST_SIZE);
    OPENSSL_cleanse(message, sizeof message);
}

static struct known_password *known_password(struct authenticator *authenticator,
                                             const uint8_t digest[KNOWN_DIGEST_SIZE]) {
    return &authenticator
                ->passwords[((size_t)digest[0] | (size_t)digest[1] << 8) % KNOWN_PASSWORDS];
}

bool authenticator_knows_password(struct authenticator *authenticator, struct bytes name,
                                  struct bytes password, struct caller *out_caller) {
    uint8_t digest[KNOWN_DIGEST_SIZE];
    struct auth_user user;
    if (name.size == 0 || name.size > AUTH_NAME_SIZE_MAX || !password_is_usable(password) ||
        !auth_find_user(auth_of(authenticator), name, &user)) {
        return false;
    }
    digest_of(authenticator, name, password, digest);
    const struct known_password *known = known_password(authenticator, digest);
    bool is_known =
        known->caller.user_id == user.id && known->caller.auth_version == user.version &&
        service_now_ms(authenticator->service) - known->verified_ms < KNOWN_PASSWORD_MS &&
        CRYPTO_memcmp(known->digest, digest, sizeof digest) == 0;
    if (is_known) {
        *out_caller = known->caller;
    }
    return is_known;
}

static void give_attempt_back(struct authenticator_login *login) {
    if (login->private.is_counted) {
        login_limits_succeeded(login->private.authenticator->limits, login->private.attempt);
        login->private.is_counted = false;
    }
}

static void login_done(void *data, enum status status, struct bytes hash) {
    struct authenticator_login *login = data;
    struct authenticator *authenticator = login->private.authenticator;
    (void)hash;
    login->private.job = NULL;
    if (status != STATUS_OK) {
        authenticator->stats.failures++;
        note_failure(authenticator, login->private.name, login->private.address,
                     "wrong user or password");
        login->done(login, status, NULL);
        return;
    }
    authenticator->stats.logins++;
    give_attempt_back(login);
    struct known_password *known = known_password(authenticator, login->private.digest);
    memcpy(known->digest, login->private.digest, sizeof known->digest);
    known->caller = login->private.caller;
    known->verified_ms = service_now_ms(authenticator->service);
    login->done(login, STATUS_OK, &login->private.caller);
}

static enum status check_login(struct authenticator *authenticator, struct bytes name,
                               struct bytes password) {
    if (!authenticator_is_on(authenticator)) {
        return STATUS_AUTH_NOT_ENABLED;
    }
    return name.size == 0 || name.size > AUTH_NAME_SIZE_MAX || !password_is_usable(password)
               ? STATUS_AUTH_FAILED
               : STATUS_OK;
}

static enum status begin_login(struct authenticator *authenticator,
                               struct authenticator_login *login, struct bytes name,
                               struct bytes password) {
    enum status status = check_login(authenticator, name, password);
    if (status != STATUS_OK) {
        return status;
    }
    /* Who has shown it a moment ago does not guess, and is not kept out by those who do. */
    struct caller ignored;
    bool is_known = authenticator_knows_password(authenticator, name, password, &ignored);
    login->private.is_counted = !is_known;
    if (!is_known &&
        !login_limits_try(authenticator->limits, name, login->private.address,
                          service_now_ms(authenticator->service), &login->private.attempt)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    /* The password of an unknown user takes as long to verify, so that names cannot be found out.
     */
    struct auth_user user = {0};
    if (auth_find_user(auth_of(authenticator), name, &user)) {
        login->private.caller = (struct caller){.user_id = user.id, .auth_version = user.version};
    }
    digest_of(authenticator, name, password, login->private.digest);
    login->private.job = password_hasher_verify(authenticator->hasher, password, user.password_hash,
                                                is_known, login_done, login);
    if (login->private.job == NULL) {
        /* It was not looked at. */
        give_attempt_back(login);
        return STATUS_TOO_MANY_REQUESTS;
    }
    return STATUS_PENDING;
}

bool authenticator_log_in(struct authenticator *authenticator, struct authenticator_login *login,
                          struct bytes name, struct bytes password, const char *address,
                          enum status *out_status) {
    memset(&login->private, 0, sizeof login->private);
    login->private.authenticator = authenticator;
    show(name, login->private.name);
    snprintf(login->private.address, sizeof login->private.address, "%s", address);
    /* A client has many ports. */
    char *colon = strrchr(login->private.address, ':');
    if (colon != NULL) {
        *colon = '\0';
    }
    enum status status = begin_login(authenticator, login, name, password);
    if (status == STATUS_PENDING) {
        return true;
    }
    if (status == STATUS_TOO_MANY_REQUESTS) {
        authenticator->stats.limited++;
        note_failure(authenticator, login->private.name, login->private.address,
                     "too many attempts");
    } else if (status == STATUS_AUTH_FAILED) {
        authenticator->stats.failures++;
    }
    *out_status = status;
    return false;
}

void authenticator_cancel(struct authenticator_login *login) {
    if (login->private.job != NULL) {
        password_job_cancel(login->private.job);
        login->private.job = NULL;
    }
}

static void hash_done(void *data, enum status status, struct bytes password_hash) {
    struct authenticator_hash *hash = data;
    hash->private.job = NULL;
    hash->done(hash, status, password_hash);
}

enum status authenticator_hash_password(struct authenticator *authenticator,
                                        struct authenticator_hash *hash, struct bytes password) {
    if (!password_is_usable(password)) {
        return STATUS_INVALID;
    }
    hash->private.job = password_hasher_hash(authenticator->hasher, password, hash_done, hash);
    return hash->private.job != NULL ? STATUS_PENDING : STATUS_TOO_MANY_REQUESTS;
}

void authenticator_cancel_hash(struct authenticator_hash *hash) {
    if (hash->private.job != NULL) {
        password_job_cancel(hash->private.job);
        hash->private.job = NULL;
    }
}
