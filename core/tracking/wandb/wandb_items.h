#ifndef ACCEL_CORE_TRACKING_WANDB_WANDB_ITEMS_H_
#define ACCEL_CORE_TRACKING_WANDB_WANDB_ITEMS_H_

#include <map>
#include <string>
#include <vector>

#include "core/tracking/tracker.h"

namespace accel::tracking {

// Values by their path, as JSON text: how W&B's log holds a row, the summary and the configuration.
// A map's values have a path of two parts, everything else one of one.
using WandBItems = std::map<std::vector<std::string>, std::string>;

// Takes the values of a row in; a key that is there already is replaced. Keys that W&B keeps for
// itself (they start with "_") get another "_" in front; their names are returned.
std::vector<std::string> AddValues(const LogCall& call, WandBItems* items);

// One JSON object, nested by the paths.
std::string ItemsJson(const WandBItems& items);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_WANDB_WANDB_ITEMS_H_
