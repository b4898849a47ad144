import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;

/**
 * Runs the class Main, and reports under the run's secret that it reached its end. After
 * System.exit nothing is reported. With names of classes as arguments, it runs each of them,
 * whatever earlier ones did, and reports those that reached their ends. Each run loads all classes
 * again, so that no case sees what another left in their fields.
 *
 * The secret comes on stdin. Only this method's frame holds it, which Java gives no access to.
 */
final class ParleyMain {
    private ParleyMain() {}

    public static void main(String[] arguments) throws Throwable {
        String secret = new BufferedReader(new InputStreamReader(System.in)).readLine();
        // The descriptor itself: /dev/fd would open it again, which only its maker may do.
        Constructor<FileDescriptor> numbered =
                FileDescriptor.class.getDeclaredConstructor(int.class);
        numbered.setAccessible(true);
        int number = Integer.parseInt(System.getenv("PARLEY_REPORT_FD"));
        FileOutputStream report = new FileOutputStream(numbered.newInstance(number));
        report.write("ready\n".getBytes());
        Map<String, byte[]> compiled = arguments.length == 0 ? Map.of() : compiled();
        for (String name : arguments) {
            try {
                run(new Anew(compiled).loadClass(name));
                report.write((secret + " ended " + name + "\n").getBytes());
            } catch (Throwable error) {
                // This case has not passed here, and runs alone.
            }
        }
        if (arguments.length == 0) {
            run(Class.forName("Main"));
            report.write((secret + " ended\n").getBytes());
        }
        report.close();
    }

    /** Reads all classes before any of them runs: a case could replace those of later cases. */
    private static Map<String, byte[]> compiled() throws Throwable {
        Map<String, byte[]> classes = new HashMap<>();
        for (File file : new File(".").listFiles((folder, entry) -> entry.endsWith(".class"))) {
            String name = file.getName().replaceAll("\\.class$", "");
            classes.put(name, Files.readAllBytes(file.toPath()));
        }
        return classes;
    }

    private static final class Anew extends ClassLoader {
        private final Map<String, byte[]> compiled;

        Anew(Map<String, byte[]> compiled) {
            super(ClassLoader.getPlatformClassLoader());
            this.compiled = compiled;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            byte[] code = compiled.get(name);
            if (code == null) {
                throw new ClassNotFoundException(name);
            }
            return defineClass(name, code, 0, code.length);
        }
    }

    private static void run(Class<?> program) throws Throwable {
        Method main = program.getDeclaredMethod("main", String[].class);
        main.setAccessible(true);
        try {
            main.invoke(null, (Object) new String[0]);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }
}
