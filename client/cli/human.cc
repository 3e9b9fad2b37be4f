#include "client/cli/human.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace accel::cli {
namespace {

// Bytes of the UTF-8 character at the start of `text`; 0 when it is none or a control character.
size_t PrintableLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xc2 && byte(1) < 0xa0) return 0;  // C1
  return length;
}

}  // namespace

std::string HumanDuration(absl::Duration duration) {
  duration = std::max(duration, absl::ZeroDuration());
  if (duration < absl::Seconds(10)) {
    return absl::StrFormat("%.1fs", absl::ToDoubleSeconds(duration));
  }
  const int64_t s = absl::ToInt64Seconds(duration);
  if (s < 60) return absl::StrCat(s, "s");
  if (s < 3600) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  if (s < 86400) return absl::StrFormat("%dh%02dm", s / 3600, s / 60 % 60);
  return absl::StrFormat("%dd%02dh", s / 86400, s / 3600 % 24);
}

std::string HumanBytes(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

std::string HumanTime(const google::protobuf::Timestamp& time, absl::TimeZone zone) {
  if (time.seconds() == 0 && time.nanos() == 0) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", ToTime(time), zone);
}

std::string HumanNumber(double value) { return absl::StrFormat("%g", value); }

std::string ExactNumber(double value) {
  for (int digits : {6, 15, 16}) {
    const std::string text = absl::StrFormat("%.*g", digits, value);
    if (std::strtod(text.c_str(), nullptr) == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

std::string StateName(v1::Job::State state) {
  const std::string name = v1::Job::State_Name(state);
  return name.empty() ? absl::StrCat("STATE ", static_cast<int>(state)) : name;
}

bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

std::string EscapeControls(absl::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const size_t length = PrintableLength(text);
    if (length > 0) {
      safe.append(text.data(), length);
    } else if (text[0] == '\n' || text[0] == '\t') {
      safe += text[0] == '\n' ? "\\n" : "\\t";
    } else {
      absl::StrAppendFormat(&safe, "\\x%02x", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return safe;
}

int DisplayWidth(absl::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace accel::cli
