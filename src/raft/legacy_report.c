#include "raft/legacy_report.h"

#include <stdio.h>
#include <string.h>

enum status legacy_report_damage(const struct legacy_report *report, const char *name,
                                 const char *what) {
    snprintf(report->text, report->size,
             "the data of the previous release cannot be converted: %s is damaged: %s. Nothing was "
             "changed. In a cluster, move the data directory of this node away and add the node "
             "again; else restore the data directory from a backup.",
             name, what);
    return STATUS_CORRUPT;
}

enum status legacy_report_error(const struct legacy_report *report, const char *name, int error) {
    snprintf(report->text, report->size,
             "the data of the previous release cannot be converted: reading %s failed: %s. Nothing "
             "was changed. Check the disk and start again.",
             name, strerror(error));
    return STATUS_IO;
}
