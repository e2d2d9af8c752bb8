#pragma once
// What a test of a refused input asks: the type of the exception, and that its text holds the numbers.
#include <rapt/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace rapt::testing {

/// f throws exactly an E (or what derives from it) whose text contains `part`.
template <class E, class F>
void expect_error(const std::string& part, F&& f) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; wanted: " << part;
  } catch (const E& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
        << "the text is: " << e.what() << "\nwanted: " << part;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another type was thrown: " << e.what() << "\nwanted: " << part;
  }
}

}  // namespace rapt::testing
