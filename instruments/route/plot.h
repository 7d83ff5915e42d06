#pragma once

// The results of a simulation as an SVG: for each policy its hit rate, and p50, p90 and p99 of the
// time to the first token on a logarithmic axis.

#include <string>
#include <vector>

#include "instruments/route/simulate.h"

namespace route {

std::string plot(const std::string& title, const std::vector<PolicyResult>& results);

}  // namespace route
