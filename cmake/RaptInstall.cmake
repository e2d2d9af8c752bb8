# cmake --install: the public headers, one static library a layer, and what find_package(rapt) needs.
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY RAPT_LAYERS)
install(TARGETS rapt ${layers} EXPORT raptTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rapt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rapt)
install(EXPORT raptTargets NAMESPACE rapt:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/raptConfig.cmake.in ${PROJECT_BINARY_DIR}/raptConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/raptConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/raptConfig.cmake ${PROJECT_BINARY_DIR}/raptConfigVersion.cmake
        DESTINATION ${package_dir})
