#include "doors/xds/xds_type.h"

static const char *const urls[XDS_TYPES] = {
    [XDS_CLUSTERS] = "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    [XDS_ENDPOINTS] = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
    [XDS_LISTENERS] = "type.googleapis.com/envoy.config.listener.v3.Listener",
    [XDS_ROUTES] = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
};

const char *xds_type_url(enum xds_type type) {
    return urls[type];
}

bool xds_type_find(struct bytes url, enum xds_type *out_type) {
    for (int type = 0; type < XDS_TYPES; type++) {
        if (bytes_equal(url, bytes_from_text(urls[type]))) {
            *out_type = (enum xds_type)type;
            return true;
        }
    }
    return false;
}
