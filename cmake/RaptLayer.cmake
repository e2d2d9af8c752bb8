# Settings that every target of the project shares, and the one way to declare a layer of the ladder.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(RAPT_CCACHE ccache)
if(RAPT_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RAPT_CCACHE})
endif()

add_library(rapt_settings INTERFACE)
target_compile_features(rapt_settings INTERFACE cxx_std_20)
# gcc 12 warns of overlapping copies inside std::string where there are none (its bug 105651).
target_compile_options(rapt_settings INTERFACE -Wall -Wextra -Wpedantic -Werror $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(RAPT_SANITIZE)
  target_compile_options(rapt_settings INTERFACE -fsanitize=${RAPT_SANITIZE} -fno-omit-frame-pointer
                                                 -fno-sanitize-recover=all)
  target_link_options(rapt_settings INTERFACE -fsanitize=${RAPT_SANITIZE})
endif()

# rapt_layer(tensor base ...): library rapt_tensor from src/tensor, which may link only the layers named after it.
function(rapt_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  add_library(rapt_${name} STATIC ${sources})
  add_library(rapt::${name} ALIAS rapt_${name})
  set_target_properties(rapt_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(
    rapt_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(rapt_${name} PUBLIC cxx_std_20)
  target_link_libraries(rapt_${name} PRIVATE $<BUILD_INTERFACE:rapt_settings>)
  foreach(below ${ARGN})
    target_link_libraries(rapt_${name} PUBLIC rapt_${below})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY RAPT_LAYERS rapt_${name})
endfunction()
