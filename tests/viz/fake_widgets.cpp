// Widgets that draw nothing, for tests with FakeUi.

#include "viz/widgets.h"

namespace viz {

std::optional<int32_t> pool_grid(Ui&, const std::string&, const PoolView&) { return {}; }
std::optional<int> block_table(Ui&, const std::string&, const TableView&) { return {}; }
void counters(Ui&, const std::vector<Counter>&) {}
std::optional<int> token_row(Ui&, const std::string&, const std::vector<TokenView>&) { return {}; }
void step_grid(Ui&, const std::string&, const StepGridView&) {}
void slots(Ui&, const std::string&, const SlotsView&) {}
void chain(Ui&, const std::string&, const ChainView&) {}
void bars(Ui&, const std::string&, const BarsView&) {}
void heat_row(Ui&, const std::string&, const HeatRowView&) {}
void pieces(Ui&, const std::string&, const PiecesView&) {}

}  // namespace viz
