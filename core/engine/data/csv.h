#ifndef ACCEL_CORE_ENGINE_DATA_CSV_H_
#define ACCEL_CORE_ENGINE_DATA_CSV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "accel/v1/data.pb.h"
#include "core/engine/data/byte_source.h"

namespace accel::engine {

// A file of comma-separated numbers.
struct CsvTable {
  // Row after row, `columns` values each.
  std::vector<float> features;
  // One value a row.
  std::vector<double> targets;
  // Columns of features.
  int64_t columns = 0;
};

// Reads a file's rows from its start to its end. Errors as ReadCsv; not thread-safe.
class CsvReader {
 public:
  // `source` must outlive this.
  CsvReader(ByteSource& source, const accel::v1::CsvFormat& format, bool integral_targets,
            double ignore_index);
  ~CsvReader();

  // The next rows, up to `max_rows`; fewer only at the end, none behind it.
  absl::StatusOr<CsvTable> Read(int64_t max_rows);

 private:
  class Parser;

  // Reads more of the file behind the line that has begun.
  absl::Status Fill();

  ByteSource& source_;
  const std::unique_ptr<Parser> parser_;
  // Lines that are read and not parsed begin at `begin_`; up to `searched_` there is no LF.
  std::string buffer_;
  size_t begin_ = 0;
  size_t searched_ = 0;
  bool ended_ = false;
};

// Reads a table as accel.v1.CsvFormat describes it. Lines end in LF or CRLF; spaces and tabs around
// a value are ignored; quotes are not understood and refused. `integral_targets` refuses targets
// that are no whole number of at least 0, except `ignore_index`. INVALID_ARGUMENT (MALFORMED_DATA)
// names row and column; RESOURCE_EXHAUSTED for more than 2^31 values or a line of more than 256
// MiB.
absl::StatusOr<CsvTable> ReadCsv(ByteSource& source, const accel::v1::CsvFormat& format,
                                 bool integral_targets, double ignore_index = 0);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_CSV_H_
