import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** Runs the statements of a file, which a line with a semicolon alone ends, in a cluster within this process. */
public class FlinkSql {
    public static void main(String[] arguments) throws Exception {
        String[] statements = Files.readString(Path.of(arguments[0])).split("\n;\n");
        Configuration settings = new Configuration();
        for (int nth = 1; nth < arguments.length; nth++) {
            String[] setting = arguments[nth].split("=", 2);
            settings.setString(setting[0], setting[1]);
        }
        TableEnvironment tables =
            TableEnvironment.create(EnvironmentSettings.newInstance().withConfiguration(settings).build());
        long began = System.nanoTime();
        for (String statement : statements) {
            tables.executeSql(statement).await();
        }
        System.out.printf("{\"seconds\": %.3f}%n", (System.nanoTime() - began) / 1e9);
        System.exit(0); // the cluster's threads would go on
    }
}
