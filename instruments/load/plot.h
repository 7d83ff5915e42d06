#pragma once

// The three times as an SVG: the share of the values up to each length, on a logarithmic axis.

#include <string>

#include "instruments/load/account.h"

namespace load {

std::string plot(const std::string& title, const Account& account);

}  // namespace load
