#include "checks/check_shares.h"

/* FNV-1a with a finish that spreads every bit (splitmix64). */
static uint64_t mix(uint64_t number) {
    number += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

uint64_t check_shares_hash(struct bytes key) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < key.size; i++) {
        hash = (hash ^ key.data[i]) * UINT64_C(0x100000001b3);
    }
    return mix(hash);
}

bool check_shares_is_own(const struct check_shares *shares, uint64_t hash) {
    uint64_t best = 0;
    uint64_t winner = 0;
    bool has_winner = false;
    for (size_t i = 0; i < shares->n; i++) {
        uint64_t score = mix(hash ^ shares->runners[i]);
        bool is_better =
            !has_winner || score > best || (score == best && shares->runners[i] > winner);
        if (is_better) {
            best = score;
            winner = shares->runners[i];
            has_winner = true;
        }
    }
    return has_winner && winner == shares->own;
}
